/* tw_idct.h - the inverse cosine transform of a block of 8 x 8 coefficients, in integers. */
#ifndef TW_IDCT_H
#define TW_IDCT_H

#include <stdint.h>

enum { TW_IDCT_FIRST_ROW = 1 << 8 };

/* Write a block of pixels, with `stride` bytes from row to row: the bytes of libjpeg's islow, which is the factorisation of
   Loeffler, Ligtenberg and Moschytz (1989) with factors of 13 bits. coefficients: row by row and times their quantisers, within
   -2047 .. 2047. used: bit x where column x has others than its first one, TW_IDCT_FIRST_ROW where the first row has. */
void tw_idct_8x8(const int16_t *coefficients, uint32_t used, uint8_t *pixels, int32_t stride);

#endif
