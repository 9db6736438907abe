/* tw_fully_connected_dsp.h - the parameters of a dense layer whose weights are one stream, for the Arm DSP extension. */
#ifndef TW_FULLY_CONNECTED_DSP_H
#define TW_FULLY_CONNECTED_DSP_H

#include "tw_fully_connected.h"

#define TW_FILTERS 8  /* at a time */

typedef struct {
    tw_fully_connected dense;  /* without weights and bias; all shifts are at most -2 */
    const uint32_t *stream;    /* read forward, in the order that the kernel's header says */
} tw_fully_connected_dsp;

/* The kernels. A _part form computes a range of the output, from and to parts of maps. */

/* int8 dense layer with the Arm DSP extension. Eight filters at a time. The stream holds, per eight filters: eight biases; per
 * four inputs k .. k + 3 the lanes (k, k + 2) of filters 0 and 1, 2 and 3, 4 and 5, 6 and 7, then the lanes (k + 1, k + 3). A
 * lane is w0 + 256 * w1, and a bias of a second filter 256 times its own plus the first's, as in tw_pair_s8.h; weights and
 * filters that are missing are 0. Rescales each sum with a single rounding. Needs no scratch. */
void tw_fully_connected_s8_dsp(const tw_fully_connected_dsp *p, const void *in, void *out);
void tw_fully_connected_s8_dsp_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range);

/* The same, with its stream, in the order that suits a Cortex-M7. */
void tw_fully_connected_s8_m7(const tw_fully_connected_dsp *p, const void *in, void *out);
void tw_fully_connected_s8_m7_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range);

/* Dense layer of int8 rows with int4 weights, with the Arm DSP extension. Eight filters at a time. The stream holds, per eight
 * filters: eight words where sums begin; per four inputs k .. k + 3 the lanes (k, k + 2) of filters 0 to 3, of filters 4 to 7,
 * then the lanes (k + 1, k + 3) of both. Lanes and begins are those of tw_lanes_w4.h; filters that are missing are 0. Rescales
 * each sum with a single rounding. Needs no scratch. */
void tw_fully_connected_s8_w4_dsp(const tw_fully_connected_dsp *p, const void *in, void *out);
void tw_fully_connected_s8_w4_dsp_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
