/* tw_taps_code.h - assembly that the depthwise kernels without scratch share: products of a tap, and rescaling. Registers: r1:
 * stream; r2, r3: channels (0, 2) and (1, 3) of a tap; r4 .. r7: sums of the first output; r8 .. r11: of the second; r12, lr:
 * weights. tw_depthwise_lean_dsp.h has the layout of the stream. */
#ifndef TW_TAPS_CODE_H
#define TW_TAPS_CODE_H

#include "tw_dsp.h"

/* The weights of the next tap. */
#define WEIGHTS "ldrd r12, lr, [r1], #8\n"
/* Adds the products of a tap to four sums of the first or second output: SMLABB for channels 0, 1, SMLATT for 2, 3. */
#define FIRST_SUMS "smlabb r4, r2, r12, r4\nsmlatt r6, r2, r12, r6\nsmlabb r5, r3, lr, r5\nsmlatt r7, r3, lr, r7\n"
#define SECOND_SUMS "smlabb r8, r2, r12, r8\nsmlatt r10, r2, r12, r10\nsmlabb r9, r3, lr, r9\nsmlatt r11, r3, lr, r11\n"

/* Rescales and clamps the sums of one channel, of two outputs or of one. r2: multiplier, r3: power, r12: zero point. */
#define BYTES_TWO(a, b, fix)            \
    "ldrd r2, r3, [r1], #8\n"           \
    "smmulr " a ", " a ", r2\n"         \
    "smmulr " b ", " b ", r2\n"         \
    fix(a)                              \
    fix(b)                              \
    "smmlar " a ", " a ", r3, r12\n"    \
    "smmlar " b ", " b ", r3, r12\n"    \
    "ssat " a ", #8, " a "\n"           \
    "ssat " b ", #8, " b "\n"
#define BYTES_ONE(a, b, fix) "ldrd r2, r3, [r1], #8\nsmmulr " a ", " a ", r2\n" TW_OUTPUT(a, fix, "r3", "r12")
#define FOUR(bytes, fix) \
    bytes("r4", "r8", fix) bytes("r5", "r9", fix) bytes("r6", "r10", fix) bytes("r7", "r11", fix)

#endif
