/* tw_softmax.h - softmax in fixed point: exp(x - max) in Q31, summed in Q12.19, times the reciprocal of the sum.
 *
 * The arithmetic is gemmlowp's, so that the bytes are TFLite's. Qa.b is a number with a integer and b fraction bits.
 */
#ifndef TW_SOFTMAX_H
#define TW_SOFTMAX_H

#include "tw.h"

/* x * 2^exponent, saturated; 0 <= exponent <= 6. */
int32_t tw_saturating_shift_left(int32_t x, int32_t exponent);

/* exp(x) in Q31 for x <= 0 in Q5.26. */
int32_t tw_exp_of_negative(int32_t x);

/* 1 / (1 + a) in Q31 for 0 <= a < 1 in Q31. */
int32_t tw_one_over_one_plus(int32_t a);

typedef struct {
    tw_shape shape;                  /* of input and output; c < 4096 */
    int32_t multiplier, left_shift;  /* from x - max to Q5.26, beta included */
    int32_t difference_min;          /* elements further below the maximum count as 0 */
} tw_softmax;

/* exp of an element that lies `difference` above the maximum: tw_exp_of_difference, or a faster function with the same results. */
typedef int32_t tw_exponential(const tw_softmax *p, int32_t difference);

static inline int32_t tw_exp_of_difference(const tw_softmax *p, int32_t difference)
{
    return tw_exp_of_negative(tw_high_mul(tw_shift_left(difference, p->left_shift), p->multiplier));
}

/* Leading zeros of x, 0 < x < 2^31. */
static inline int32_t tw_headroom(int32_t x)
{
#if defined(__ARM_FEATURE_CLZ) && defined(__GNUC__)
    return __builtin_clz((uint32_t)x);
#else
    int32_t headroom = 1;
    while (((uint32_t)x << headroom) < 1u << 31) {
        ++headroom;
    }
    return headroom;
#endif
}

/* What all elements of a pixel share: the largest, and the reciprocal of the sum of exponentials with its headroom. */
typedef struct { int32_t highest, scale, headroom; } tw_softmax_pixel;

TW_INLINE tw_softmax_pixel tw_softmax_sum(const tw_softmax *p, const int8_t *from, tw_exponential *exponential)
{
    tw_softmax_pixel pixel = {-128, 0, 0};
    int32_t sum = 0; /* Q12.19 */
    for (int32_t i = 0; i < p->shape.c; ++i) {
        pixel.highest = tw_max(pixel.highest, from[i]);
    }
    for (int32_t i = 0; i < p->shape.c; ++i) {
        if (from[i] - pixel.highest >= p->difference_min) {
            sum += tw_rounding_shift(exponential(p, from[i] - pixel.highest), 12);
        }
    }
    pixel.headroom = tw_headroom(sum);
    pixel.scale = tw_one_over_one_plus((int32_t)(((uint32_t)sum << pixel.headroom) - (1u << 31)));
    return pixel;
}

/* The share of an element in units of 2^-bits, less than 2^bits. */
TW_INLINE int32_t tw_softmax_element(const tw_softmax *p, const tw_softmax_pixel *pixel, int32_t x, int32_t bits,
                                     tw_exponential *exponential)
{
    const int32_t right = 12 - pixel->headroom + 31 - bits;
    if (x - pixel->highest < p->difference_min || right > 31) {
        return 0;
    }
    const int32_t share = tw_high_mul(pixel->scale, exponential(p, x - pixel->highest));
    return tw_min(tw_rounding_shift(share, right), (1 << bits) - 1);
}

/* The elements of an int8 pixel. */
TW_INLINE void tw_softmax_pixel_s8(const tw_softmax *p, const int8_t *from, int8_t *to, tw_exponential *exponential)
{
    const tw_softmax_pixel pixel = tw_softmax_sum(p, from, exponential);
    for (int32_t i = 0; i < p->shape.c; ++i) {
        to[i] = (int8_t)(tw_softmax_element(p, &pixel, from[i], 8, exponential) - 128);
    }
}

/* int8 softmax over the channels of each pixel. The output has the scale 1/256 and the zero point -128. No scratch; out
 * may alias in. */
TW_DECLARE_FORMS(tw_softmax_s8, tw_softmax);

/* Softmax of int8 over the channels of each pixel, with int16 results. The output has the scale 1/65536 and the zero point
 * -32768. Needs no scratch. */
void tw_softmax_s8_s16(const tw_softmax *p, const void *in, void *out);

/* Logarithm of a softmax over the channels of each pixel. */
typedef struct {
    tw_shape shape;                              /* of input and output */
    int32_t multiplier, left_shift;              /* from x - max to Q5.26; Q31 */
    int32_t reverse_multiplier, reverse_shift;   /* and back */
    int32_t difference_min;                      /* below it the exponential is 0 */
} tw_log_softmax;

/* int8 logarithm of a softmax. The output's scale is 1/16, its zero point 127. No scratch; out may alias in. */
TW_DECLARE_FORMS(tw_log_softmax_s8, tw_log_softmax);

#endif
