/* tw_fully_connected_s8_w4_dsp.h - dense layer of int8 rows with int4 weights, with the Arm DSP extension. */
#ifndef TW_FULLY_CONNECTED_S8_W4_DSP_H
#define TW_FULLY_CONNECTED_S8_W4_DSP_H

#include "tw_fully_connected_dsp.h"

/* Eight filters at a time. The stream holds, per eight filters: eight words where sums begin; per four inputs k .. k + 3 the lanes
 * (k, k + 2) of filters 0 to 3, of filters 4 to 7, then the lanes (k + 1, k + 3) of both. Lanes and begins are those of
 * tw_lanes_w4.h; filters that are missing are 0.
 *
 * Rescales each sum with a single rounding. Needs no scratch. */
void tw_fully_connected_s8_w4_dsp(const tw_fully_connected_dsp *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_fully_connected_s8_w4_dsp_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
