/* tw_fully_connected_s8_dsp.c - int8 dense layer with the Arm DSP extension. tw_fully_connected_dsp.h has the layers, the
 * layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"

#define LANE_WEIGHTS 2
#define LANE_OFFSET 0
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_dsp)
