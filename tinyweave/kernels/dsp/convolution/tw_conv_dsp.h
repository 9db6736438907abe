/* tw_conv_dsp.h - the parameters of an int8 convolution whose weights are one stream, for the Arm DSP extension. */
#ifndef TW_CONV_DSP_H
#define TW_CONV_DSP_H

#include "tw_conv.h"

typedef struct {
    tw_conv conv;            /* without weights, bias, multiplier and shift: `stream` holds them */
    const uint32_t *stream;  /* read forward, in the order that the kernel's comment says */
    int32_t sign;            /* -1: rescaling must round negative halves away from zero; 0: all that is negative is clamped */
} tw_conv_dsp;

/* The kernels. A _part form computes a range of the output, from and to parts of maps. */

/* int8 convolution, with the Arm DSP extension: dense, not dilated.
 * stream: as tw_pair_s8.h says, of inputs in the order of tw_conv_pairs.h, which also says how much scratch. */
void tw_conv_2d_s8_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* The same, with its stream and its scratch, in the order that suits a Cortex-M7. */
void tw_conv_2d_s8_m7(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_m7_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* The same, where Flash waits: copy the stream to scratch first, in front of what that needs otherwise. */
void tw_conv_2d_s8_copying_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_copying_m7(const tw_conv_dsp *p, const void *in, void *out, void *scratch);

/* Convolution of int8 maps with int4 weights, with the Arm DSP extension: dense, not dilated.
 * stream: as tw_pair_w4.h says, of inputs in the order of tw_conv_pairs.h, which also says how much scratch. */
void tw_conv_2d_s8_w4_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_w4_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* int4 convolution with int4 weights, with the Arm DSP extension: dense, not dilated, with input channels in multiples of 8.
 * stream: as tw_pair_w4.h says, of inputs plus 8, so that they are half bytes without a sign: the biases are less 8 times the
 * weights. The inputs of a window come tap by tap, those k .. k + 7 of a word in the order k, k + 1, k + 4, k + 5, k + 2, k +
 * 3, k + 6, k + 7.
 * scratch: aligned to words; 4 bytes per input of a window; the outputs of two pixels as int8, each rounded up to words. Reads
 * the windows of two pixels before it writes either. */
void tw_conv_2d_s4_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s4_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

/* int8 convolution 3x3 of stride 1, dense, not dilated, with the Arm DSP extension: fewer instructions for more Flash.
 * stream: as tw_winograd.h says; in.c must be a multiple of four.
 * scratch: aligned to words; per input channel 64 bytes for the windows of two tiles, 32 for the columns of one, but at least
 * 512 since sums lie there too; a byte per output channel, rounded up to words; per input channel 2 for padding. Reads the
 * windows of two tiles, which follow each other row by row, before it writes either. */
void tw_conv_2d_s8_winograd_dsp(const tw_conv_dsp *p, const void *in, void *out, void *scratch);
void tw_conv_2d_s8_winograd_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch);

#define TW_CONV_LEAN_MOST_ROWS 7

typedef struct {
    tw_conv_dsp base;       /* the stream as tw_pair_s8.h says, of inputs row by row */
    const int8_t *padding;  /* kernel.w * in.c bytes of the input's zero point; NULL where no window meets padding */
} tw_conv_lean_dsp;

/* int8 convolution with the Arm DSP extension and without working memory: dense, not dilated, of pixels of whole words, at most
 * TW_CONV_LEAN_MOST_ROWS rows of the kernel. The window of a pixel is read for every four of its outputs, then for the rest. */
void tw_conv_2d_s8_lean_dsp(const tw_conv_lean_dsp *p, const void *in, void *out);
void tw_conv_2d_s8_lean_dsp_part(const tw_conv_lean_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
