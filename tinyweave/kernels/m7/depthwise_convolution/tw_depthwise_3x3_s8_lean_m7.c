/* tw_depthwise_3x3_s8_lean_m7.c - int8 depthwise convolution 3x3 without scratch, scheduled for a Cortex-M7. */
#include "tw_depthwise_lean_dsp.h"

#include "tw_taps_m7.h"
#include "tw_taps_loop.h"

TW_TAPS_ALONE(alone, 3, "9", "0", TAPS_ALONE("8"))
TW_TAPS_OUTPUTS(tw_taps_3_1_m7, alone, 3, 1, 4, "12", "0, 4, 8", ROW_1("1, 2", "3"))
TW_TAPS_OUTPUTS(tw_taps_3_2_m7, alone, 3, 2, 5, "15", "0, 5, 10", ROW_2("2", "3", "4"))

TW_TAPS_KERNEL(tw_depthwise_3x3_s8_lean_m7, 3)
