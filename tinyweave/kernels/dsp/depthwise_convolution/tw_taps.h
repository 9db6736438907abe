/* tw_taps.h - depthwise convolution with the Arm DSP extension and without working memory: four channels of two outputs of a
 * row at a time, each tap read where it lies in the map, its ring or its tile.
 *
 * A tap outside the map is read from `padding` instead.
 * The stream, per four channels, of which the last are channels - 4 and those after it: four biases less the input's zero point
 * times the weights, doubled; per tap two words, the weights of channels (0, 2) and of (1, 3), doubled; per channel its
 * multiplier and 2^(32 - exponent).
 */
#ifndef TW_TAPS_H
#define TW_TAPS_H

#include "tw.h"

#define TW_TAPS_MOST_ROWS 7

/* Outputs of a row, in the order in which the assembly reads it. */
typedef struct {
    int8_t *to_0, *to_1;     /* two outputs; equal where there is only one */
    int32_t last;            /* where the last four channels begin */
    int32_t channels;
    int32_t across;          /* bytes from behind the pixel of two outputs' first tap to that of the next two */
    const uint32_t *stream;
    int32_t pairs;           /* how often two outputs; more than 1 only where all taps are inside the map */
    int32_t zero, sign;      /* as for tw_rescale_doubled */
    int32_t begin, end;      /* of the columns that taps of the first two outputs are in, those inside the map */
    const int8_t *padding;   /* `channels` bytes of the input's zero point */
    int32_t inside;          /* whether all taps are inside the map; then `begin` and `end` do not matter */
    const int8_t *rows[TW_TAPS_MOST_ROWS]; /* column `begin` of each of the kernel's rows; NULL where the row is outside */
} tw_taps;

/* One for each size of a kernel, as high as it is wide, and stride along a row. */
typedef void tw_taps_outputs(const tw_taps *taps);
tw_taps_outputs tw_taps_3_1, tw_taps_3_2, tw_taps_5_1, tw_taps_5_2, tw_taps_7_1, tw_taps_7_2;
tw_taps_outputs tw_taps_3_1_m7, tw_taps_3_2_m7, tw_taps_5_1_m7, tw_taps_5_2_m7, tw_taps_7_1_m7, tw_taps_7_2_m7;

#endif
