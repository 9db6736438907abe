/* tw_fully_connected_s8_steps.h - the assembly of int8 dense layers that tw_fully_connected_dsp_loop.h repeats. */
#ifndef TW_FULLY_CONNECTED_S8_STEPS_H
#define TW_FULLY_CONNECTED_S8_STEPS_H

/* Two inputs, in register x, times two pairs of filters, whose sums are the other operands. r12, lr: the packed weights of each
 * pair.
 * Order: SMLAD with a packed word adds to the pair's odd filter; only then SXTB16 replaces it by the even filter's weights.
 * Equals tw_add_two_s8 for each pair. */
#define PAIR(x, low_0, high_0, low_1, high_1)           \
    "smlad " high_0 ", " x ", r12, " high_0 "\n"        \
    "sxtb16 r12, r12\n"                                 \
    "smlad " high_1 ", " x ", lr, " high_1 "\n"         \
    "sxtb16 lr, lr\n"                                   \
    "smlad " low_0 ", " x ", r12, " low_0 "\n"          \
    "smlad " low_1 ", " x ", lr, " low_1 "\n"
#define LOAD_PAIR "ldm.w r1!, {r12, lr}\n"
/* The same by two loads. Directly after another load they take 2 cycles on a Cortex-M4, LDM 3. */
#define LOAD_FIRST "ldr lr, [r1, #4]\nldr r12, [r1], #8\n"
#define LOADED_STEP(x) PAIR(x, "r4", "r5", "r6", "r7") LOAD_PAIR PAIR(x, "r8", "r9", "r10", "r11")
#define STEP(x) LOAD_PAIR LOADED_STEP(x)
#define SKIPPED_QUAD 128 /* 32 instructions of four bytes */

#endif
