/* tw_fully_connected_s8_dsp.c - int8 dense layer with the Arm DSP extension. */
#include "tw_fully_connected_dsp.h"

/* r2, r3: widened inputs; r12, lr: weights. */
#define PAIR(x, low_0, high_0, low_1, high_1)           \
    "ldm.w r1!, {r12, lr}\n"                            \
    "smlad " high_0 ", " x ", r12, " high_0 "\n"        \
    "sxtb16 r12, r12\n"                                 \
    "smlad " high_1 ", " x ", lr, " high_1 "\n"         \
    "sxtb16 lr, lr\n"                                   \
    "smlad " low_0 ", " x ", r12, " low_0 "\n"          \
    "smlad " low_1 ", " x ", lr, " low_1 "\n"
#define STEP(x) PAIR(x, "r4", "r5", "r6", "r7") PAIR(x, "r8", "r9", "r10", "r11")
#define SKIPPED_QUAD 124

#define LANE_WEIGHTS 2
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_dsp)
