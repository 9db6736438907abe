/* tw_jpeg_bytes.h - what the two halves of the JPEG decoder share: the file's bytes, and the error that ends it. */
#ifndef TW_JPEG_BYTES_H
#define TW_JPEG_BYTES_H

#include "tw_jpeg.h"

enum { TW_JPEG_RST0 = 0xD0 };

/* Keep the first error; return the one that is kept. */
int32_t tw_jpeg_fail(tw_jpeg *jpeg, int32_t status);

/* Return the next byte of the file, or -1 where there is none; `stop` says why. */
int32_t tw_jpeg_byte(tw_jpeg *jpeg);

#endif
