/* tw_taps_m7.h - rows of a kernel's taps for tw_taps_loop.h, in the order that suits a Cortex-M7: as tw_pair_s8_m7.c says.
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

/* Sums of both outputs become bytes, the next channel's products before this one's bytes. r2, r3: multiplier and power. */
#define PRODUCT_OF(a, b, fix)         \
    "smmulr " a ", " a ", r2\n"       \
    "smmulr " b ", " b ", r2\n"       \
    fix(a)                            \
    fix(b)
#define SHIFTED(a, b)                 \
    "smmlar " a ", " a ", r3, r12\n"  \
    "smmlar " b ", " b ", r3, r12\n"
#define NEXT_PRODUCT(a, b, a_next, b_next, fix)   \
    "ldr r2, [r1], #4\n"                          \
    SHIFTED(a, b)                                 \
    "ldr r3, [r1], #4\n"                          \
    PRODUCT_OF(a_next, b_next, fix)               \
    "ssat " a ", #8, " a "\n"                     \
    "ssat " b ", #8, " b "\n"
#define FOUR_TWO(fix)                                       \
    "ldrd r2, r3, [r1], #8\n"                               \
    PRODUCT_OF("r4", "r8", fix)                             \
    NEXT_PRODUCT("r4", "r8", "r5", "r9", fix)               \
    NEXT_PRODUCT("r5", "r9", "r6", "r10", fix)              \
    NEXT_PRODUCT("r6", "r10", "r7", "r11", fix)             \
    SHIFTED("r7", "r11")                                    \
    "ssat r7, #8, r7\n"                                     \
    "ssat r11, #8, r11\n"

/* One output alone, of one tap and `more`: registers are left for the next tap. r10 leads through the addresses; r8: that of
 * the next tap; r9: its inputs. */
#define TAP_ALONE                     \
    "sxtb16 r3, r9, ror #8\n"         \
    "ldr r8, [r10], #4\n"             \
    "sxtb16 r2, r9\n"                 \
    "smlabb r4, r2, r12, r4\n"        \
    "smlatt r6, r2, r12, r6\n"        \
    "ldr r9, [r8, r0]\n"              \
    "smlabb r5, r3, lr, r5\n"         \
    "ldr r12, [r1], #4\n"             \
    "smlatt r7, r3, lr, r7\n"         \
    "ldr lr, [r1], #4\n"
#define TAPS_ALONE(more)              \
    "mov r10, sp\n"                   \
    "ldr r8, [r10], #4\n"             \
    "ldr r12, [r1], #4\n"             \
    "ldr lr, [r1], #4\n"              \
    "ldr r9, [r8, r0]\n"              \
    ".rept " more "\n" TAP_ALONE ".endr\n" \
    "sxtb16 r3, r9, ror #8\n"         \
    "sxtb16 r2, r9\n"                 \
    FIRST_SUMS

#endif
