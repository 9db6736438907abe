/* tw_depthwise_lean_dsp.h - int8 depthwise convolutions with the Arm DSP extension and without scratch: four channels of two
 * outputs of a row, each tap read in place. A tap in the padding is read from a row of zero points.
 *
 * Layers: depthwise_conv_2d with depth multiplier 1, dilation 1, at least four channels; square windows of 3, 5 or 7, horizontal
 * stride 1 or 2; or windows and maps one column wide. Kernels that end in _m7 are scheduled for a Cortex-M7.
 *
 * Weights: one stream of words, read forward. Per block of four channels, the last of which ends at the last channel:
 *   4 words          doubled biases, each with the input's zero point times the sum of its weights subtracted
 *   2 words per tap  doubled weights of channels (0, 2), then of channels (1, 3)
 *   8 words          per channel its multiplier and 2^(32 - exponent)
 * Sums are doubled so that SMMULR, which drops 32 bits, gives sum * multiplier / 2^31.
 *
 * Cost, fitted (layer_cycles.json), rescaling included, in cycles per MAC at strides 1 and 2:
 *   Cortex-M4       3x3 3.4, 4.0   5x5 2.6, 3.1   7x7 2.5, 2.9
 *   Cortex-M7, _m7  3x3 2.3, 2.7   5x5 1.7, 2.1   7x7 1.6, 1.8
 */
#ifndef TW_DEPTHWISE_LEAN_DSP_H
#define TW_DEPTHWISE_LEAN_DSP_H

#include "tw_conv_dsp.h"

#define TW_TAPS_MOST_ROWS 7

/* Outputs of a row. The assembly loads the members in this order. */
typedef struct {
    int8_t *to_0, *to_1;     /* two outputs; equal for a single output */
    int32_t last;            /* the first of the last four channels */
    int32_t channels;
    int32_t across;          /* bytes from the end of the first tap's pixel to the first tap of the next two outputs */
    const uint32_t *stream;
    int32_t pairs;           /* pairs of outputs; more than 1 only if all taps are inside the map */
    int32_t zero, sign;      /* see tw_rescale_doubled */
    int32_t begin, end;      /* columns of both windows together that are inside the map */
    const int8_t *padding;   /* `channels` bytes of the input's zero point; not read if all taps are inside the map */
    const int8_t *rows[TW_TAPS_MOST_ROWS]; /* column `begin` of each row of the window; NULL if the row is outside the map */
} tw_taps;

/* One function per window size and horizontal stride; those that end in _m7 are scheduled for a Cortex-M7. */
typedef void tw_taps_outputs(const tw_taps *taps);
tw_taps_outputs tw_taps_3_1, tw_taps_3_2, tw_taps_5_1, tw_taps_5_2, tw_taps_7_1, tw_taps_7_2;
tw_taps_outputs tw_taps_3_1_m7, tw_taps_3_2_m7, tw_taps_5_1_m7, tw_taps_5_2_m7, tw_taps_7_1_m7, tw_taps_7_2_m7;

typedef struct {
    tw_conv_dsp base;        /* stream: as above */
    tw_taps_outputs *taps;   /* the function for the window size and stride */
    const int8_t *padding;   /* in.c bytes of the input's zero point; NULL if no window reaches into padding */
} tw_depthwise_lean_dsp;

/* Four channels of two outputs of a row, or of its odd last output, are read before they are written. The last four channels may
 * overlap those before. */
TW_DECLARE_FORMS(tw_depthwise_3x3_s8_lean_dsp, tw_depthwise_lean_dsp);
TW_DECLARE_FORMS(tw_depthwise_5x5_s8_lean_dsp, tw_depthwise_lean_dsp);
TW_DECLARE_FORMS(tw_depthwise_7x7_s8_lean_dsp, tw_depthwise_lean_dsp);
TW_DECLARE_FORMS(tw_depthwise_3x3_s8_lean_m7, tw_depthwise_lean_dsp);
TW_DECLARE_FORMS(tw_depthwise_5x5_s8_lean_m7, tw_depthwise_lean_dsp);
TW_DECLARE_FORMS(tw_depthwise_7x7_s8_lean_m7, tw_depthwise_lean_dsp);

/* The same along maps of one column, with windows one column wide of any height and any vertical stride. Two outputs are read
 * before they are written if their windows are inside the map and a row apart. */
TW_DECLARE_FORMS(tw_depthwise_column_s8_dsp, tw_conv_dsp);

/* Reduces a map of one column to one pixel without padding, as streaming calls do that add a row. The window has any height.
 * Four channels are read before they are written. */
void tw_depthwise_pixel_s8_dsp(const tw_conv_dsp *p, const void *in, void *out);

#endif
