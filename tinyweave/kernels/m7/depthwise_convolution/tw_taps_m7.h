/* tw_taps_m7.h - rows of taps and rescaling for tw_taps_loop.h, scheduled for a Cortex-M7 by the rules of tw_pair_s8_m7.c.
 * tw_depthwise_lean_dsp.h has the layout of the weights and the cost; registers and stack are those of tw_taps_loop.h.
 *
 * Order: the second output's products with a tap use the weights that are in r12 and lr. Between them its own weights are
 * loaded, for the first output's products. Between those the next tap's inputs are loaded, in two steps: its address, then its
 * four channels.
 */
#ifndef TW_TAPS_M7_H
#define TW_TAPS_M7_H

/* Loads the address of a tap; loads its four channels; widens them. */
#define ADDRESS_OF(column) "ldr r2, [sp, #4*(\\first+" column ")]\n"
#define INPUTS "ldr r2, [r2, r0]\n"
#define WIDENED "sxtb16 r3, r2, ror #8\nsxtb16 r2, r2\n"
/* The first tap of a row and its weights. */
#define TAP_0                         \
    ADDRESS_OF("0")                   \
    "ldr r12, [r1], #4\n"             \
    INPUTS                            \
    "ldr lr, [r1], #4\n"              \
    WIDENED
/* Adds the first output's products with a tap and loads the tap `next`. */
#define FIRST_AND(next)               \
    "smlabb r4, r2, r12, r4\n"        \
    "smlatt r6, r2, r12, r6\n"        \
    ADDRESS_OF(next)                  \
    "smlabb r5, r3, lr, r5\n"         \
    "smlatt r7, r3, lr, r7\n"         \
    INPUTS                            \
    WIDENED
/* Adds the second output's products with a tap and loads the next weights; first, second: where in the stream their words are.
 */
#define SECOND_AND(first, second)     \
    "smlabb r8, r2, r12, r8\n"        \
    "smlatt r10, r2, r12, r10\n"      \
    "ldr r12, [r1" first "\n"         \
    "smlabb r9, r3, lr, r9\n"         \
    "smlatt r11, r3, lr, r11\n"       \
    "ldr lr, [r1" second "\n"
#define ON "], #4"                    /* the next word, with post-increment */

/* A row of the window at stride 1, as ROW_1 in tw_taps_loop.h: a column has the second output's weights of the column before.
 */
#define ROW_1(both, last) \
    TAP_0 FIRST_AND("1") EACH("column", both, SECOND_AND(ON, ON) FIRST_AND("\\column+1")) SECOND_SUMS

/* A row of the window at stride 2, as ROW_2 there: the second output's weights are those of two columns before, loaded again.
 */
#define ROW_2(both, last_but_one, last)                                                         \
    TAP_0 FIRST_AND("1")                                                                        \
    "ldr r12, [r1], #4\nldr lr, [r1], #4\n" FIRST_AND("2")                                      \
    "ldr r12, [r1, #-16]\nldr lr, [r1, #-12]\n"                                                 \
    EACH("column", both, SECOND_AND(ON, ON) FIRST_AND("\\column+1") "ldr r12, [r1, #-16]\nldr lr, [r1, #-12]\n") \
    SECOND_AND(", #-8]", ", #-4]") ADDRESS_OF(last) INPUTS WIDENED SECOND_SUMS

/* Rescales and clamps the sums of four channels of both outputs, as FOUR_TWO in tw_taps_loop.h. The next channel's first
 * rounding stands between the second rounding and the clamp of this channel. r2: multiplier; r3: power; r12: zero point. */
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

/* All taps of a single output; more: taps after the first. The second output's registers hold the next tap: r10: pointer to the
 * addresses; r8: the address of the next tap; r9: its four channels. Equals ROW_ALONE for each row. */
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
