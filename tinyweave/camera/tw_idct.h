/* tw_idct.h - the inverse cosine transform of a block of 8 x 8 coefficients, in integers. */
#ifndef TW_IDCT_H
#define TW_IDCT_H

#include <stdint.h>

/* Coefficients, row by row and times their quantisers, within -2047 .. 2047; pixels with `stride` bytes from row to row. The bytes of libjpeg's islow: the factorisation of Loeffler, Ligtenberg and Moschytz (1989) with factors of 13 bits. */
void tw_idct_8x8(const int16_t *coefficients, uint8_t *pixels, int32_t stride);

#endif
