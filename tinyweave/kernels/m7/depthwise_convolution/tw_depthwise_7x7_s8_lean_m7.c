/* tw_depthwise_7x7_s8_lean_m7.c - int8 depthwise convolution 7x7 without scratch, scheduled for a Cortex-M7. */
#include "tw_depthwise_lean_dsp.h"

#include "tw_taps_m7.h"
#include "tw_taps_loop.h"

TW_TAPS_ALONE(alone, 7, "49", "0", TAPS_ALONE("48"))
TW_TAPS_OUTPUTS(tw_taps_7_1_m7, alone, 7, 1, 8, "56", "0, 8, 16, 24, 32, 40, 48", ROW_1("1, 2, 3, 4, 5, 6", "7"))
TW_TAPS_OUTPUTS(tw_taps_7_2_m7, alone, 7, 2, 9, "63", "0, 9, 18, 27, 36, 45, 54", ROW_2("2, 3, 4, 5, 6", "7", "8"))

TW_TAPS_KERNEL(tw_depthwise_7x7_s8_lean_m7, 7)
