/* tw_fully_connected_s8_w4_dsp.c - dense layer of int8 rows with int4 weights, with the Arm DSP extension.
 * tw_fully_connected_dsp.h has the layers, the layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"
#include "tw_lanes_w4.h"

/* Two inputs, in register x, times four filters with the sums a, b, c, d of tw_lanes_w4.h. r12: the weights of all four
 * filters; lr: masked weights. The last mask overwrites the word, so two registers suffice. Equals tw_add_w4. */
#define FOUR(x, a, b, c, d)                 \
    "smlad " d ", " x ", r12, " d "\n"      \
    "uxtb16 lr, r12\n"                      \
    "smlad " b ", " x ", lr, " b "\n"       \
    "and lr, r12, #0x000F000F\n"            \
    "and r12, r12, #0x0F000F00\n"           \
    "smlad " a ", " x ", lr, " a "\n"       \
    "smlad " c ", " x ", r12, " c "\n"
#define LOAD_FIRST "ldr r12, [r1], #4\n"
#define LOADED_STEP(x) FOUR(x, "r4", "r5", "r6", "r7") LOAD_FIRST FOUR(x, "r8", "r9", "r10", "r11")
#define STEP(x) LOAD_FIRST LOADED_STEP(x)
#define SKIPPED_QUAD 140 /* 35 instructions of four bytes */

#define LANE_WEIGHTS 4
#define LANE_OFFSET 8
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_w4_dsp)
