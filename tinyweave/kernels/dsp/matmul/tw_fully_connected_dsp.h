/* tw_fully_connected_dsp.h - dense layers for the Arm DSP extension: one input row times eight filters.
 *
 * Layers: fully_connected with int8 or int4 weights. All shifts are at most -2: rescaling rounds once and drops the low word.
 *
 * Weights: one stream of words, read forward. Per group of eight filters eight initial sums, then per quad of inputs k .. k +
 * 3:
 *   int8   8 words: lanes (k, k + 2) of filters 0 and 1, 2 and 3, 4 and 5, 6 and 7, then lanes (k + 1, k + 3) of the same
 *          pairs; a lane is w0 + 256 * w1, and the initial sums are b0, b0 + 256 * b1 and so on, as in tw_conv_dsp.h
 *   int4   4 words: lanes (k, k + 2) of filters 0 to 3, of filters 4 to 7, then lanes (k + 1, k + 3) of both; lanes and
 *          initial sums are those of tw_lanes_w4.h
 *   m7     as int8, but a lane is w0 + 128 + 256 * w1. A mask then takes the place of sign extension. The sums have 128 times
 *          the sum of the inputs too much, which the kernel subtracts from the initial sums
 *   few    for layers with at most four outputs, whose only group has just as many filters: 2 words per filter, lanes
 *          (k, k + 2) and (k + 1, k + 3) of its weights. If the number of inputs is not a multiple of four, the last quad
 *          ends with the last input, and the weights of the inputs that the quad before holds, too, are 0
 *   scalar without DSP: a group has four filters, and a quad a word per filter, the bytes of its weights plus 128
 * Missing weights and filters are 0. For long rows, whose sums would overflow an accumulator, a kernel adds up the sums of
 * segments: the stream begins with the quads of a segment, and the initial sums are plain biases.
 *
 * Cost, per 32 MACs: 32 instructions with int8 weights, 35 with int4 weights. Fitted (layer_cycles.json) with int8 weights:
 * 1.21 cycles per MAC on a Cortex-M4, 1.02 on a Cortex-M7, 0.56 there with tw_fully_connected_s8_m7. A few filters: 8
 * instructions per 4 MACs of one filter, about 12 per 8 MACs of two and 20 per 16 MACs of four.
 */
#ifndef TW_FULLY_CONNECTED_DSP_H
#define TW_FULLY_CONNECTED_DSP_H

#include "tw_fully_connected.h"

#define TW_FILTERS 8  /* per group */

typedef struct {
    tw_dense dense;
    const uint32_t *stream;  /* as above; has the biases, too */
} tw_fully_connected_dsp;

/* No scratch. The _rows forms take flattened maps as those of tw_fully_connected.h do. Their rows must have a multiple of four
 * elements. With packed weights, the values in `sums` are packed, too. */

/* int8 weights. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_dsp, tw_fully_connected_dsp);

/* int8 weights of long rows. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_segments_dsp, tw_fully_connected_dsp);

/* int8 weights, at most four outputs. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_few_dsp, tw_fully_connected_dsp);

/* int8 weights, scheduled for a Cortex-M7, with a stream of its own. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_m7, tw_fully_connected_dsp);

/* int8 weights, on cores without DSP. scratch, aligned to words: 4 bytes per input, rounded up to quads; a row of inputs is read
 * before its outputs are written. Weights k and k + 2 of a quad have at most 255 in absolute values together. */
TW_DECLARE_SCRATCH_FORMS(tw_fully_connected_s8_scalar, tw_fully_connected_dsp);

/* int8 rows with int4 weights. */
TW_DECLARE_ROW_FORMS(tw_fully_connected_s8_w4_dsp, tw_fully_connected_dsp);

#endif
