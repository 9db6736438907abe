/* tw_conv_dsp.h - parameters and kernels of convolutions for the Arm DSP extension, whose weights are one stream.
 *
 * Weights of dense int8 convolutions: one stream of words, read forward. Per group of four filters:
 *   4 words            the initial sums b0, b0 + 256 * b1, b2, b2 + 256 * b3
 *   4 words per quad   of inputs k .. k + 3: lanes (k, k + 2) of filters 0 and 1, the same of filters 2 and 3, then lanes
 *                      (k + 1, k + 3) of filters 0 and 1, of filters 2 and 3
 *   8 words            per filter its multiplier and 2^(32 - exponent), both 0 if the multiplier is 0; the multipliers of
 *                      filters 0 and 2 are doubled modulo 2^32
 * A word has two lanes of 16 bits. A lane holds the weights of two filters for one input, w0 + 256 * w1. SMLAD with the word
 * accumulates s0 + 256 * s1. SMLAD with the word's SXTB16, which is w0 alone, accumulates s0. Each bias has the input's zero
 * point times the sum of the filter's weights subtracted.
 */
#ifndef TW_CONV_DSP_H
#define TW_CONV_DSP_H

#include "tw_conv.h"

typedef struct {
    tw_conv_shape conv;
    const uint32_t *stream;  /* read forward; the kernel's comment names its layout */
    int32_t sign;            /* -1: round negative halves away from zero; 0: the clamp removes all negative outputs */
} tw_conv_dsp;

/* int8 convolution: one group, dilation 1. Order of the inputs, and scratch: tw_conv_pairs.h. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_dsp, tw_conv_dsp);

/* The same with outliers: filters that are zeros in the stream. Their table, of tw_outliers.h, follows it. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_outliers_dsp, tw_conv_dsp);

/* tw_conv_2d_s8_dsp scheduled for a Cortex-M7, with the same stream and scratch. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_m7, tw_conv_dsp);

/* The same for Flash with wait states: copy the stream to the beginning of the scratch first. */
void tw_conv_2d_s8_copying_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_copying_m7(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* Convolution of int8 maps with int4 weights: one group, dilation 1. Stream: tw_pair_w4.h. Order of the inputs, and scratch:
 * tw_conv_pairs.h. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_w4_dsp, tw_conv_dsp);

/* int8 convolution 3x3 by Winograd's algorithm: stride 1, one group, dilation 1, in.c a multiple of 4. Fewer multiplications
 * for more Flash. Stream: tw_winograd.h. scratch, aligned to words: per input channel 64 bytes for the windows of two tiles and
 * 32 for the columns of one tile, at least 512 since sums share them; a byte per output channel, rounded up to words; 2 bytes
 * of padding per input channel. The windows of two successive tiles are read before either tile is written. */
TW_DECLARE_SCRATCH_FORMS(tw_conv_2d_s8_winograd_dsp, tw_conv_dsp);

#define TW_CONV_LEAN_MOST_PARTS 16   /* of a window; 12 bytes of stack each */
#define TW_CONV_LEAN_MOST_COPIED 168 /* bytes of a window that is copied: what two parts leave of the stack */

typedef struct {
    tw_conv_dsp base;       /* stream as above; order of the inputs: tw_conv_2d_s8_lean_dsp.c */
    const int8_t *padding;  /* kernel.w * in.c bytes of the input's zero point; NULL if no window reaches into padding */
} tw_conv_lean_dsp;

/* int8 convolution without scratch: one group, dilation 1, windows that TW_CONV_LEAN_MOST_PARTS describe. The window of a pixel
 * is read once for each four output channels and once for the tail. */
TW_DECLARE_FORMS(tw_conv_2d_s8_lean_dsp, tw_conv_lean_dsp);

#endif
