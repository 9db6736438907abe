/* tw_idct.c - the inverse cosine transform of a block of 8 x 8 coefficients, in integers: see tw_idct.h. */
#include "tw_idct.h"

enum { FACTOR_BITS = 13, GUARD_BITS = 2, MOST = 16383 };

static int32_t rounded(int32_t value, int32_t bits) { return (value + (1 << (bits - 1))) >> bits; }

/* Eight values of one line, `step` apart, to 8 sums with FACTOR_BITS more bits. */
static void transform(const int16_t *in, int32_t step, int32_t *out)
{
    const int32_t common = (in[2 * step] + in[6 * step]) * 4433;
    const int32_t even_2 = common - in[6 * step] * 15137, even_3 = common + in[2 * step] * 6270;
    const int32_t sum = (in[0] + in[4 * step]) * (1 << FACTOR_BITS), difference = (in[0] - in[4 * step]) * (1 << FACTOR_BITS);
    const int32_t even[4] = {sum + even_3, difference + even_2, difference - even_2, sum - even_3};
    const int32_t a = in[7 * step], b = in[5 * step], c = in[3 * step], d = in[step];
    const int32_t all = (a + c + b + d) * 9633;
    const int32_t outer = (a + d) * -7373, inner = (b + c) * -20995;
    const int32_t left = (a + c) * -16069 + all, right = (b + d) * -3196 + all;
    const int32_t odd[4] = {
        d * 12299 + outer + right,
        c * 25172 + inner + left,
        b * 16819 + inner + right,
        a * 2446 + outer + left,
    };
    for (int32_t i = 0; i < 4; ++i) {
        out[i] = even[i] + odd[i];
        out[7 - i] = even[i] - odd[i];
    }
}

void tw_idct_8x8(const int16_t *coefficients, uint8_t *pixels, int32_t stride)
{
    int16_t columns[64];
    int32_t sums[8];
    for (int32_t x = 0; x < 8; ++x) {
        int32_t others = 0;
        for (int32_t y = 1; y < 8; ++y) {
            others |= coefficients[8 * y + x];
        }
        if (others == 0) {
            for (int32_t y = 0; y < 8; ++y) {
                columns[8 * y + x] = (int16_t)(coefficients[x] * (1 << GUARD_BITS));
            }
            continue;
        }
        transform(coefficients + x, 8, sums);
        for (int32_t y = 0; y < 8; ++y) { /* no block of an encoder comes near these ends; within them no sum overflows */
            const int32_t value = rounded(sums[y], FACTOR_BITS - GUARD_BITS);
            columns[8 * y + x] = (int16_t)(value < -MOST ? -MOST : value > MOST ? MOST : value);
        }
    }
    for (int32_t y = 0; y < 8; ++y) {
        transform(columns + 8 * y, 1, sums);
        for (int32_t x = 0; x < 8; ++x) {
            const int32_t value = rounded(sums[x], FACTOR_BITS + GUARD_BITS + 3) + 128;
            pixels[x] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
        pixels += stride;
    }
}
