/* tw_depthwise_3x3_s8_lean_dsp.c - int8 depthwise convolution 3x3 with the Arm DSP extension and without scratch. */
#include "tw_depthwise_lean_dsp.h"

#include "tw_taps_loop.h"

TW_TAPS_ALONE(alone, 3, "9", "0, 3, 6", ROW_ALONE("0, 1, 2"))
TW_TAPS_OUTPUTS(tw_taps_3_1, alone, 3, 1, 4, "12", "0, 4, 8", ROW_1("1, 2", "3"))
TW_TAPS_OUTPUTS(tw_taps_3_2, alone, 3, 2, 5, "15", "0, 5, 10", ROW_2("2", "3", "4"))

TW_TAPS_KERNEL(tw_depthwise_3x3_s8_lean_dsp, 3)
