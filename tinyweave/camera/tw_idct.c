/* tw_idct.c - the inverse cosine transform of a block of 8 x 8 coefficients, in integers: see tw_idct.h. */
#include "tw_idct.h"

#include <string.h>

#include "tw_pixels.h"

enum { FACTOR_BITS = 13, GUARD_BITS = 2, COLUMN_BITS = FACTOR_BITS - GUARD_BITS, ROW_BITS = FACTOR_BITS + GUARD_BITS + 3 };
enum { VALUE_BITS = 15, LEAST = -(1 << (VALUE_BITS - 1)), MOST = -LEAST - 1 }; /* of what the columns' transform gives */
/* Added to sums: a half, for rounding; of rows also the 128 that pixels are above their transform. */
enum { HALF_COLUMN = 1 << (COLUMN_BITS - 1), HALF_ROW = (1 << (ROW_BITS - 1)) + (128 << ROW_BITS) };

typedef struct { int32_t even[4], odd[4]; } halves; /* of 8 sums: number i is even[i] + odd[i], number 7 - i even[i] - odd[i] */

/* Eight values of one line, `step` apart, to 8 sums with FACTOR_BITS more bits, to each of which `more` is added. */
static inline halves transform(const int16_t *in, int32_t step, int32_t more)
{
    const int32_t common = (in[2 * step] + in[6 * step]) * 4433;
    const int32_t even_2 = common - in[6 * step] * 15137, even_3 = common + in[2 * step] * 6270;
    const int32_t sum = (in[0] + in[4 * step]) * (1 << FACTOR_BITS) + more;
    const int32_t difference = (in[0] - in[4 * step]) * (1 << FACTOR_BITS) + more;
    const int32_t a = in[7 * step], b = in[5 * step], c = in[3 * step], d = in[step];
    const int32_t all = (a + c + b + d) * 9633;
    const int32_t outer = (a + d) * -7373, inner = (b + c) * -20995;
    const int32_t left = (a + c) * -16069 + all, right = (b + d) * -3196 + all;
    const halves sums = {
        {sum + even_3, difference + even_2, difference - even_2, sum - even_3},
        {d * 12299 + outer + right, c * 25172 + inner + left, b * 16819 + inner + right, a * 2446 + outer + left},
    };
    return sums;
}

/* No block of an encoder comes near these ends; within them no sum of a row overflows. */
static inline int16_t of_column(int32_t sum)
{
#if TW_HAS_SAT
    __asm__("ssat %0, %2, %1, asr %3" : "=r"(sum) : "r"(sum), "I"(VALUE_BITS), "I"(COLUMN_BITS));
    return (int16_t)sum;
#else
    sum >>= COLUMN_BITS;
    return (int16_t)(sum < LEAST ? LEAST : sum > MOST ? MOST : sum);
#endif
}

static inline void write_column(halves sums, int16_t *lines)
{
    lines[0] = of_column(sums.even[0] + sums.odd[0]);
    lines[8] = of_column(sums.even[1] + sums.odd[1]);
    lines[16] = of_column(sums.even[2] + sums.odd[2]);
    lines[24] = of_column(sums.even[3] + sums.odd[3]);
    lines[32] = of_column(sums.even[3] - sums.odd[3]);
    lines[40] = of_column(sums.even[2] - sums.odd[2]);
    lines[48] = of_column(sums.even[1] - sums.odd[1]);
    lines[56] = of_column(sums.even[0] - sums.odd[0]);
}

static inline uint8_t of_row(int32_t sum)
{
#if TW_HAS_SAT
    __asm__("usat %0, #8, %1, asr %2" : "=r"(sum) : "r"(sum), "I"(ROW_BITS));
    return (uint8_t)sum;
#else
    return tw_clipped(sum >> ROW_BITS);
#endif
}

static inline void write_row(halves sums, uint8_t *pixels)
{
    pixels[0] = of_row(sums.even[0] + sums.odd[0]);
    pixels[1] = of_row(sums.even[1] + sums.odd[1]);
    pixels[2] = of_row(sums.even[2] + sums.odd[2]);
    pixels[3] = of_row(sums.even[3] + sums.odd[3]);
    pixels[4] = of_row(sums.even[3] - sums.odd[3]);
    pixels[5] = of_row(sums.even[2] - sums.odd[2]);
    pixels[6] = of_row(sums.even[1] - sums.odd[1]);
    pixels[7] = of_row(sums.even[0] - sums.odd[0]);
}

void tw_idct_8x8(const int16_t *coefficients, uint32_t used, uint8_t *pixels, int32_t stride)
{
    int16_t lines[64];
    if (used == 0) {
        const uint8_t all = of_row(coefficients[0] * (1 << (GUARD_BITS + FACTOR_BITS)) + HALF_ROW);
        for (int32_t y = 0; y < 8; ++y, pixels += stride) {
            memset(pixels, all, 8);
        }
        return;
    }
    for (int32_t x = 0; x < 8; ++x) {
        const int16_t first = (int16_t)(coefficients[x] * (1 << GUARD_BITS));
        if ((used >> x & 1u) == 0) {
            for (int32_t y = 0; y < 8; ++y) {
                lines[8 * y + x] = first;
            }
            continue;
        }
        write_column(transform(coefficients + x, 8, HALF_COLUMN), lines + x);
    }
    for (int32_t y = 0; y < 8; ++y, pixels += stride) {
        write_row(transform(lines + 8 * y, 1, HALF_ROW), pixels);
    }
}
