/* tw_weights.h - the check of a file of weights, before a model reads it. */
#ifndef TW_WEIGHTS_H
#define TW_WEIGHTS_H

#include <stddef.h>

#include "tw.h"

/* Return 0 if `file`, aligned to 4 bytes, is a file of `bytes` bytes for the C whose hash is `plan`, and undamaged. Return -3 if
 * it is no file of weights, or of another format, -4 if it is for other C, -5 if it is damaged. The check is a CRC-32. It finds
 * accidents, such as an interrupted download, but no intent: whoever changes the file can write its CRC-32, too. */
int tw_weights_check(const void *file, size_t bytes, const uint32_t plan[4]);

/* Copies `bytes` bytes at an offset of the file to `destination`; returns 0, or an error code. */
typedef int tw_weights_read(void *context, uint32_t offset, void *destination, uint32_t bytes);

/* Check a file by a callback that reads it, at most `room` bytes at a time, to `buffer`. Return as above, or its error code. */
int tw_weights_check_by_read(
    tw_weights_read *read, void *context, void *buffer, uint32_t room, uint32_t bytes, const uint32_t plan[4]);

#endif
