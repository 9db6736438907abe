/* tw_taps_m7.h - rows of a kernel's taps for tw_taps_loop.h, in the order that suits a Cortex-M7: as tw_conv_2d_s8_m7.c says.
 *
 * Products of both outputs: those of the second one with the weights that are there, then those of the first one with the weights
 * that are loaded meanwhile; then a tap's inputs are no longer needed, and those of the next one come.
 */
#ifndef TW_TAPS_M7_H
#define TW_TAPS_M7_H

#define ADDRESS_OF(column) "ldr r2, [sp, #4*(\\first+" column ")]\n"
#define INPUTS "ldr r2, [r2, r0]\n"
#define WIDENED "sxtb16 r3, r2, ror #8\nsxtb16 r2, r2\n"
#define TAP_0                         \
    ADDRESS_OF("0")                   \
    "ldr r12, [r1], #4\n"             \
    INPUTS                            \
    "ldr lr, [r1], #4\n"              \
    WIDENED
/* next: the tap whose inputs come. */
#define FIRST_AND(next)               \
    "smlabb r4, r2, r12, r4\n"        \
    "smlatt r6, r2, r12, r6\n"        \
    ADDRESS_OF(next)                  \
    "smlabb r5, r3, lr, r5\n"         \
    "smlatt r7, r3, lr, r7\n"         \
    INPUTS                            \
    WIDENED
/* first, second: from where in the stream the weights of both words come. */
#define SECOND_AND(first, second)     \
    "smlabb r8, r2, r12, r8\n"        \
    "smlatt r10, r2, r12, r10\n"      \
    "ldr r12, [r1" first "\n"         \
    "smlabb r9, r3, lr, r9\n"         \
    "smlatt r11, r3, lr, r11\n"       \
    "ldr lr, [r1" second "\n"
#define ON "], #4"                    /* the next word, and on */

/* Stride 1: a tap is the second output's with the weights of the tap before. `both`: the taps behind the first one of both. */
#define ROW_1(both, last) \
    TAP_0 FIRST_AND("1") EACH("column", both, SECOND_AND(ON, ON) FIRST_AND("\\column+1")) SECOND_SUMS

/* Stride 2: with the weights of the tap two before, which are loaded once more. */
#define ROW_2(both, last_but_one, last)                                                         \
    TAP_0 FIRST_AND("1")                                                                        \
    "ldr r12, [r1], #4\nldr lr, [r1], #4\n" FIRST_AND("2")                                      \
    "ldr r12, [r1, #-16]\nldr lr, [r1, #-12]\n"                                                 \
    EACH("column", both, SECOND_AND(ON, ON) FIRST_AND("\\column+1") "ldr r12, [r1, #-16]\nldr lr, [r1, #-12]\n") \
    SECOND_AND(", #-8]", ", #-4]") ADDRESS_OF(last) INPUTS WIDENED SECOND_SUMS

#endif
