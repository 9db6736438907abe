/* tw_fully_connected_s8_m7.c - int8 dense layer with the Arm DSP extension, scheduled for a Cortex-M7 by the rules of
 * tw_pair_s8_m7.c. tw_fully_connected_dsp.h has the layers, the layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"

/* Four inputs times eight filters, with r2 and r12 already loaded; at: byte offset of the quad in the stream of the round.
 * Registers: r0: inputs; r1: stream; r2, r3: inputs (k, k + 2) and (k + 1, k + 3); r12, lr: packed weights of two filters each,
 * then those of the even filter; r4 .. r11: sums.
 * Order: SMLAD with the packed word, then SXTB16, then SMLAD for the even filter. The loads between them bring the other word
 * of a pair and the first word of the next pair. The last products of a quad leave r2 free for the inputs of the next quad.
 * Each instruction is four bytes long, since the loop is entered between quads. Equals two calls of add() in
 * tw_fully_connected_dsp_loop.h. */
#define QUAD                       \
    "sxtb16 r3, r2, ror #8\n"      \
    "sxtb16 r2, r2\n"              \
    "smlad r5, r2, r12, r5\n"      \
    "ldr.w lr, [r1, #\\at+4]\n"    \
    "sxtb16 r12, r12\n"            \
    "smlad r4, r2, r12, r4\n"      \
    "ldr.w r12, [r1, #\\at+8]\n"   \
    "smlad r7, r2, lr, r7\n"       \
    "sxtb16 lr, lr\n"              \
    "smlad r6, r2, lr, r6\n"       \
    "smlad r9, r2, r12, r9\n"      \
    "ldr.w lr, [r1, #\\at+12]\n"   \
    "sxtb16 r12, r12\n"            \
    "smlad r8, r2, r12, r8\n"      \
    "ldr.w r12, [r1, #\\at+16]\n"  \
    "smlad r11, r2, lr, r11\n"     \
    "sxtb16 lr, lr\n"              \
    "smlad r10, r2, lr, r10\n"     \
    "smlad r5, r3, r12, r5\n"      \
    "ldr.w lr, [r1, #\\at+20]\n"   \
    "sxtb16 r12, r12\n"            \
    "smlad r4, r3, r12, r4\n"      \
    "ldr.w r12, [r1, #\\at+24]\n"  \
    "smlad r7, r3, lr, r7\n"       \
    "sxtb16 lr, lr\n"              \
    "smlad r6, r3, lr, r6\n"       \
    "ldr.w r2, [r0, #\\at/8+4]\n"  \
    "smlad r9, r3, r12, r9\n"      \
    "ldr.w lr, [r1, #\\at+28]\n"   \
    "sxtb16 r12, r12\n"            \
    "smlad r8, r3, r12, r8\n"      \
    "ldr.w r12, [r1, #\\at+32]\n"  \
    "smlad r11, r3, lr, r11\n"     \
    "sxtb16 lr, lr\n"              \
    "smlad r10, r3, lr, r10\n"
#define QUAD_BYTES "140" /* code of a quad */

/* The last quad of a round. It advances r0 and compares it with the end of the inputs instead of loading inputs that may not
 * exist. */
#define LAST_QUAD                \
    "sxtb16 r3, r2, ror #8\n"    \
    "add.w r0, r0, #16\n"        \
    "sxtb16 r2, r2\n"            \
    "smlad r5, r2, r12, r5\n"    \
    "ldr.w lr, [r1, #100]\n"    \
    "sxtb16 r12, r12\n"          \
    "smlad r4, r2, r12, r4\n"    \
    "ldr.w r12, [r1, #104]\n"   \
    "smlad r7, r2, lr, r7\n"     \
    "sxtb16 lr, lr\n"            \
    "smlad r6, r2, lr, r6\n"     \
    "smlad r9, r2, r12, r9\n"    \
    "ldr.w lr, [r1, #108]\n"   \
    "sxtb16 r12, r12\n"          \
    "smlad r8, r2, r12, r8\n"    \
    "ldr.w r12, [r1, #112]\n"  \
    "smlad r11, r2, lr, r11\n"   \
    "sxtb16 lr, lr\n"            \
    "smlad r10, r2, lr, r10\n"   \
    "smlad r5, r3, r12, r5\n"    \
    "ldr.w lr, [r1, #116]\n"   \
    "sxtb16 r12, r12\n"          \
    "smlad r4, r3, r12, r4\n"    \
    "ldr.w r12, [r1, #120]\n"  \
    "smlad r7, r3, lr, r7\n"     \
    "sxtb16 lr, lr\n"            \
    "smlad r6, r3, lr, r6\n"     \
    "ldr.w r2, [sp]\n"           \
    "smlad r9, r3, r12, r9\n"    \
    "ldr.w lr, [r1, #124]\n"   \
    "sxtb16 r12, r12\n"          \
    "smlad r8, r3, r12, r8\n"    \
    "cmp r0, r2\n"               \
    "smlad r11, r3, lr, r11\n"   \
    "sxtb16 lr, lr\n"            \
    "smlad r10, r3, lr, r10\n"

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
    "ldr r2, [r0]\n"                                 \
    "ldm lr, {r4-r11}\n"                             \
    "orr lr, r3, #1\n"                               \
    "sub r0, r0, r12, lsl #2\n"                      \
    "sub r3, r1, r12, lsl #5\n"                      \
    "ldr r12, [r1]\n"                                \
    "mov r1, r3\n"                                   \
    "bx lr\n"                                        \
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
#include "tw_fully_connected_dsp_loop.h"

TW_FULLY_CONNECTED_DSP_FORMS(tw_fully_connected_s8_m7)
