/* tw_conv_s16.h - what convolutions of int16 maps share. They take whole maps only. */
#ifndef TW_CONV_S16_H
#define TW_CONV_S16_H

#include "tw.h"

typedef struct {
    tw_shape in, out;
    tw_size kernel, stride, dilation;
    tw_size pad;                /* rows above, columns left of the map */
    int32_t out_min, out_max;   /* the fused activation's clamp; all zero points are 0 */
    int32_t groups;
    const int8_t *weights;      /* [out.c][kernel.h][kernel.w][in.c / groups] */
} tw_conv_s16_base;

typedef struct {
    tw_conv_s16_base base;
    const int64_t *bias;        /* [out.c], or a null pointer */
    const int16_t *multiplier;  /* [out.c], Q15 */
    const int8_t *shift;        /* [out.c], positive goes left */
    /* Instead of bias and multiplier, where the bias is int32: sums are taken modulo 2^32 and rescaled as in tw_conv_2d_s8. */
    const int32_t *narrow_bias;
    const int32_t *narrow_multiplier; /* Q31, or a null pointer */
} tw_conv_s16;

/* Where each sum with its bias is an int32, and the multiplier takes the shift in. */
typedef struct {
    tw_conv_s16_base base;
    const int32_t *bias;        /* [out.c] */
    const int32_t *factor;      /* [out.c]: an output is the sum * factor / 2^32, rounded half up */
} tw_conv_s16_word;

/* x * multiplier * 2^(shift - 15), rounded half up (TFLite's MultiplyByQuantizedMultiplier of 64-bit sums, which has a
 * multiplier of 16 bits); |x| < 2^47, -31 <= shift <= 14. */
static inline int32_t tw_requantize_wide(int64_t x, int32_t multiplier, int32_t shift)
{
    const int32_t right = 15 - shift;
    return (int32_t)((x * multiplier + ((int64_t)1 << (right - 1))) >> right);
}

static inline int64_t tw_dot_s16(const int16_t *x, const int8_t *weights, int32_t count)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < count; ++i) {
        sum += x[i] * weights[i];
    }
    return sum;
}

/* The output of a channel, of which `sum` has the products. */
static inline int16_t tw_conv_finish_s16(const tw_conv_s16 *p, int32_t channel, int64_t sum)
{
    int32_t scaled;
    if (p->narrow_multiplier) {
        const int32_t biased = tw_add_bias((int32_t)(uint32_t)sum, p->narrow_bias, channel);
        scaled = tw_requantize(biased, p->narrow_multiplier[channel], p->shift[channel]);
    } else {
        const int64_t biased = p->bias ? sum + p->bias[channel] : sum;
        scaled = tw_requantize_wide(biased, p->multiplier[channel], p->shift[channel]);
    }
    return (int16_t)tw_clamp(scaled, p->base.out_min, p->base.out_max);
}

/* Convolution of int16 maps with int8 weights. Needs no scratch. */
void tw_conv_2d_s16(const tw_conv_s16 *p, const void *in, void *out);

/* The same with the Arm DSP extension, or the MVE extension. */
void tw_conv_2d_s16_dsp(const tw_conv_s16_word *p, const void *in, void *out);
void tw_conv_2d_s16_mve(const tw_conv_s16_word *p, const void *in, void *out);

/* The same with a filter for each of several channels: groups is in.c and out.c. weights: [kernel.h][kernel.w][out.c]. The DSP
 * form takes at least four channels. */
void tw_conv_2d_s16_channels_dsp(const tw_conv_s16_word *p, const void *in, void *out);
void tw_conv_2d_s16_channels_mve(const tw_conv_s16_word *p, const void *in, void *out);

/* Transposed convolution of int16 maps with int8 weights.
 * weights: [out.c][kernel.h][kernel.w][in.c]; stride and pad belong to the output, as in tw_transpose_conv_s8. dilation and
 * groups are 1. Needs no scratch. */
void tw_transpose_conv_s16(const tw_conv_s16 *p, const void *in, void *out);

#endif
