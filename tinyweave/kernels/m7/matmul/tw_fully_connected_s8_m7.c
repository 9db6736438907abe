/* tw_fully_connected_s8_m7.c - int8 dense layer with the Arm DSP extension, in the order that suits a Cortex-M7: as
 * tw_pair_s8_m7.c says. */
#include "tw_fully_connected_dsp.h"

/* Of two words of the stream and the widened inputs x, sums in r4 .. r11: the second word is loaded, and the first one of the
 * next two. Each instruction is four bytes long. */
#define PAIR(x, low_0, high_0, low_1, high_1, second, next) \
    "smlad " high_0 ", " x ", r12, " high_0 "\n"      \
    "ldr.w lr, [r1, #" second "]\n"                   \
    "sxtb16 r12, r12\n"                               \
    "smlad " low_0 ", " x ", r12, " low_0 "\n"        \
    next                                              \
    "smlad " high_1 ", " x ", lr, " high_1 "\n"       \
    "sxtb16 lr, lr\n"                                 \
    "smlad " low_1 ", " x ", lr, " low_1 "\n"
#define WORD(at) "ldr.w r12, [r1, #" at "]\n"
#define FIRST(x, at, next) PAIR(x, "r4", "r5", "r6", "r7", at, next)
#define SECOND(x, at, next) PAIR(x, "r8", "r9", "r10", "r11", at, next)

/* Four inputs, in r2: first goes behind the first instruction, load before the last pair, next into it. */
#define QUAD(at, first, load, next)        \
    "sxtb16 r3, r2, ror #8\n"              \
    first                                  \
    "sxtb16 r2, r2\n"                      \
    FIRST("r2", at "+4", WORD(at "+8"))    \
    SECOND("r2", at "+12", WORD(at "+16")) \
    FIRST("r3", at "+20", WORD(at "+24"))  \
    load                                   \
    SECOND("r3", at "+28", next)
#define QUAD_BYTES "140" /* of code */
#define QUAD_AND(at, at_x) QUAD(at, "", "ldr.w r2, [r0, #" at_x "]\n", WORD(at "+32")) /* the next four are loaded */

/* On the stack: where the inputs end, where the sums go. At first r12: how many quads of the first round are left out; lr: where
 * sums begin. */
#define SKIPPED_QUAD 1
#define PRODUCTS                                                                                                            \
    "push {r4-r11}\n"                                                                                                       \
    "push {r2, r3}\n"                                                                                                       \
    "adr r2, 3f\n"                                                                                                          \
    "mov r3, #" QUAD_BYTES "\n"                                                                                             \
    "mla r3, r12, r3, r2\n"                                                                                                 \
    "ldr r2, [r0]\n"                                                                                                        \
    "ldm lr, {r4-r11}\n"                                                                                                    \
    "orr lr, r3, #1\n"                                                                                                      \
    "sub r0, r0, r12, lsl #2\n"                                                                                             \
    "sub r3, r1, r12, lsl #5\n"                                                                                             \
    "ldr r12, [r1]\n"                                                                                                       \
    "mov r1, r3\n"                                                                                                          \
    "bx lr\n"                                                                                                               \
    "2:\n"                                                                                                                  \
    "ldr r2, [r0]\n"                                                                                                        \
    "ldr r12, [r1]\n"                                                                                                       \
    ".p2align 2\n"                                                                                                          \
    "3:\n"                                                                                                                  \
    QUAD_AND("0", "4") QUAD_AND("32", "8") QUAD_AND("64", "12")                                                             \
    QUAD("96", "add.w r0, r0, #16\n", "ldr.w r2, [sp]\n", "cmp r0, r2\n") /* the last, behind which there may be nothing */ \
    "add.w r1, r1, #128\n"                                                                                                  \
    "bne.w 2b\n"                                                                                                            \
    "ldr r3, [sp, #4]\n"                                                                                                    \
    "stm r3, {r4-r11}\n"                                                                                                    \
    "add sp, sp, #8\n"                                                                                                      \
    "pop {r4-r11}\n"

#define LANE_WEIGHTS 2
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_m7)
