/* tw_depthwise_5x5_s8_lean_dsp.c - int8 depthwise convolution 5x5 with the Arm DSP extension and without scratch. */
#include "tw_depthwise_lean_dsp.h"

#include "tw_taps_loop.h"

TW_TAPS_ALONE(alone, 5, "25", "0, 5, 10, 15, 20", ROW_ALONE("0, 1, 2, 3, 4"))
TW_TAPS_OUTPUTS(tw_taps_5_1, alone, 5, 1, 6, "30", "0, 6, 12, 18, 24", ROW_1("1, 2, 3, 4", "5"))
TW_TAPS_OUTPUTS(tw_taps_5_2, alone, 5, 2, 7, "35", "0, 7, 14, 21, 28", ROW_2("2, 3, 4", "5", "6"))

TW_TAPS_KERNEL(tw_depthwise_5x5_s8_lean_dsp, 5)
