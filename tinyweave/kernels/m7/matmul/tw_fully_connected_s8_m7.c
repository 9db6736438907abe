/* tw_fully_connected_s8_m7.c - int8 dense layer with the Arm DSP extension, scheduled for a Cortex-M7 by the rules of
 * tw_pair_s8_m7.c. tw_fully_connected_dsp.h has the layers, the layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"

/* Four inputs times eight filters, with r2 and r12 already loaded; at: byte offset of the quad in the stream of the round.
 * Registers: r0: inputs; r1: stream; r2, r3: inputs (k, k + 2) and (k + 1, k + 3); r12, lr: packed weights of two filters each,
 * then those of the even filter; r4 .. r11: sums.
 * Order: SMLAD with the packed word for the odd filter, then AND, then SMLAD for the even filter. AND is no DSP instruction, so it
 * issues together with SMLAD, which SXTB16 could not. It needs even weights of at least 0: the stream adds 128 to them. Each load
 * follows the last use of its register. The second half of a quad needs only r3, so r2 takes the next inputs. 18 cycles.
 * Each instruction is four bytes long, since the loop is entered between quads. Equals two calls of add() in
 * tw_fully_connected_dsp_loop.h. */
#define EVEN(weights) "and " weights ", " weights ", #0x00FF00FF\n"
#define BOTH(low, high, x, weights, load)                    \
    "smlad " high ", " x ", " weights ", " high "\n"         \
    EVEN(weights)                                            \
    "smlad " low ", " x ", " weights ", " low "\n"           \
    load
#define WORD(weights, at) "ldr.w " weights ", [r1, #" at "]\n"
/* second, inputs, weights: instructions that issue together with a DSP instruction; the last two load the next inputs, which need
 * r2, and weights. */
#define PRODUCTS_OF_QUAD(at, second, inputs, weights)        \
    "sxtb16 r3, r2, ror #8\n"                                \
    WORD("lr", at "+4")                                      \
    "sxtb16 r2, r2\n"                                        \
    second                                                   \
    BOTH("r4", "r5", "r2", "r12", WORD("r12", at "+8"))      \
    BOTH("r6", "r7", "r2", "lr", WORD("lr", at "+12"))       \
    BOTH("r8", "r9", "r2", "r12", WORD("r12", at "+16"))     \
    BOTH("r10", "r11", "r2", "lr", WORD("lr", at "+20"))     \
    BOTH("r4", "r5", "r3", "r12", WORD("r12", at "+24"))     \
    BOTH("r6", "r7", "r3", "lr", WORD("lr", at "+28"))       \
    BOTH("r8", "r9", "r3", "r12", inputs)                    \
    BOTH("r10", "r11", "r3", "lr", weights)
#define QUAD PRODUCTS_OF_QUAD("\\at", "", "ldr.w r2, [r0, #\\at/8+4]\n", WORD("r12", "\\at+32"))
#define QUAD_BYTES "140" /* code of a quad */

/* The last quad of a round. It advances r0 and compares it with the end of the inputs instead of loading inputs that may not
 * exist. */
#define LAST_QUAD PRODUCTS_OF_QUAD("96", "add.w r0, r0, #16\n", "ldr.w r2, [sp]\n", "cmp r0, r2\n")

/* All quads of a row times eight filters. Registers at entry: as PRODUCTS in tw_fully_connected_dsp_loop.h, but r12 is the
 * quads that the first round skips.
 * Stack, 40 bytes: r4 .. r11, saved here since the code needs all registers; below them [sp] end of the inputs, +4 where sums
 * go.
 * Loop: four quads per round; the first round enters at label 3 + r12 * QUAD_BYTES, with r0 and r1 moved back by what it skips.
 * Equals products() in tw_fully_connected_dsp_loop.h. */
#define SKIPPED_QUAD 1
#define PRODUCTS                                     \
    "push {r4-r11}\n"                                \
    "push {r2, r3}\n"                                \
    "adr r2, 3f\n"                                   \
    "mov r3, #" QUAD_BYTES "\n"                      \
    "mla r3, r12, r3, r2\n"                          \
    "ldm lr, {r4-r11}\n"                             \
    "ldr r2, [r0]\n"                                 \
    "mov lr, r1\n"                                   \
    "sub r0, r0, r12, lsl #2\n"                      \
    "sub r1, r1, r12, lsl #5\n"                      \
    "ldr r12, [lr]\n"                                \
    "orr r3, r3, #1\n"                               \
    "bx r3\n"                                        \
    "2:\n"                                           \
    "ldr r2, [r0]\n"                                 \
    "ldr r12, [r1]\n"                                \
    ".p2align 2\n"                                   \
    "3:\n"                                           \
    ".irp at, 0, 32, 64\n" QUAD ".endr\n" LAST_QUAD  \
    "add.w r1, r1, #128\n"                           \
    "bne.w 2b\n"                                     \
    "ldr r3, [sp, #4]\n"                             \
    "stm r3, {r4-r11}\n"                             \
    "add sp, sp, #8\n"                               \
    "pop {r4-r11}\n"

#define LANE_WEIGHTS 2
#define LANE_OFFSET 128
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_m7)
