/* tw_fully_connected_s8_w4_dsp.c - dense layer of int8 rows with int4 weights, with the Arm DSP extension. */
#include "tw_fully_connected_dsp.h"

/* r2, r3: widened inputs; r12: weights of four filters, lr: of some. Sums d, b, a, c of tw_lanes_w4.h. */
#define FOUR(x, a, b, c, d)                 \
    "ldr r12, [r1], #4\n"                   \
    "smlad " d ", " x ", r12, " d "\n"      \
    "uxtb16 lr, r12\n"                      \
    "smlad " b ", " x ", lr, " b "\n"       \
    "and lr, r12, #0x000F000F\n"            \
    "and r12, r12, #0x0F000F00\n"           \
    "smlad " a ", " x ", lr, " a "\n"       \
    "smlad " c ", " x ", r12, " c "\n"
#define STEP(x) FOUR(x, "r4", "r5", "r6", "r7") FOUR(x, "r8", "r9", "r10", "r11")
#define SKIPPED_QUAD 140

#define LANE_WEIGHTS 4
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_w4_dsp)
