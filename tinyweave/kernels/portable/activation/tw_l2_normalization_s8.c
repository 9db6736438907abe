/* tw_l2_normalization_s8.c - each channel of a pixel, divided by the root of the sum of their squares, portable C. */
#include "tw_l2_normalization_s8.h"

#include "tw_softmax.h"

/* 1 / sqrt(x) = the result * 2^(*shift - 31), for 1 <= x < 2^29, by Newton's iteration on Q3.28; the largest result for 0. */
static int32_t inverse_root(int32_t x, int32_t *shift)
{
    int32_t root = 1 << 28, pairs = 0;
    *shift = 0;
    if (x <= 1) {
        return INT32_MAX;
    }
    for (; x < 1 << 27; x *= 4) {
        ++pairs;
    }
    const int32_t half = tw_rounding_shift(x >> 1, 1);
    for (int32_t i = 0; i < 5; ++i) {
        const int32_t cube = tw_saturating_shift_left(tw_high_mul(tw_high_mul(root, root), root), 6);
        root = tw_saturating_shift_left(tw_high_mul((1 << 28) + (1 << 27), root) - tw_high_mul(half, cube), 3);
    }
    root = tw_high_mul(root, 1518500250); /* sqrt(1/2) */
    *shift = tw_min(pairs - 11, 0);
    return pairs > 11 ? root << (pairs - 11) : root;
}

static void normalise(const tw_l2_normalization *p, const int8_t *from, int8_t *to)
{
    int32_t sum = 0, shift;
    for (int32_t i = 0; i < p->shape.c; ++i) {
        sum += (from[i] - p->in_zero) * (from[i] - p->in_zero);
    }
    const int32_t multiplier = inverse_root(sum, &shift);
    for (int32_t i = 0; i < p->shape.c; ++i) {
        to[i] = (int8_t)tw_clamp(tw_requantize(from[i] - p->in_zero, multiplier, shift + 7), -128, 127);
    }
}

TW_PIXEL_FORMS(tw_l2_normalization_s8, tw_l2_normalization, p, normalise)
