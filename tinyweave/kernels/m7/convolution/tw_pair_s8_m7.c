/* tw_pair_s8_m7.c - two pixels times four filters of int8 weights, scheduled for a Cortex-M7.
 *
 * Layers and layout of the weights: tw_conv_dsp.h.
 * Cost: 15 instructions per 16 MACs. Fitted (layer_cycles.json, windows of whole words): 0.65 cycles per MAC on a Cortex-M7,
 * where tw_pair_s8.c takes 0.88.
 *
 * Rules of the schedule, which all _m7 files follow. The core issues two instructions per cycle, a DSP instruction only in the
 * first slot, so each DSP instruction is followed by a load, a store or plain arithmetic if there is one. The result of a load
 * or a multiplication is used two cycles later at the earliest. LDM and LDRD issue alone and take a cycle per word, so each
 * load is of one word, and the words of the next step are loaded within this step.
 */
#include "tw_pair_s8_m7.h"

#include "tw_dsp.h"

#if TW_HAS_DSP

/* Two inputs of both pixels times four filters, with r2, r3 and r12 already loaded; at: byte offset of the step in the round.
 * Registers: r0: inputs; r1: stream; r2, r3: inputs of pixel 0 and 1; r12, lr: weights of filters 0 and 1, of filters 2 and 3;
 * r4 .. r7: sums of pixel 0; r8 .. r11: of pixel 1.
 * Order: the stream's first word is loaded again after its SXTB16 was used, so that one register holds w0 and then the packed
 * w0 + 256 * w1. Loads of the next step stand behind the last use of their register. Each instruction is four bytes long, since
 * the loop is entered between steps. Equals add() in tw_pair_s8.c for both pixels. */
#define STEP(at)                      \
    "sxtb16 r12, r12\n"               \
    "ldr.w lr, [r1, #4 + " at "]\n"   \
    "smlad r4, r2, r12, r4\n"         \
    "smlad r8, r3, r12, r8\n"         \
    "ldr.w r12, [r1, #" at "]\n"      \
    "smlad r7, r2, lr, r7\n"          \
    "smlad r11, r3, lr, r11\n"        \
    "sxtb16 lr, lr\n"                 \
    "smlad r5, r2, r12, r5\n"         \
    "smlad r9, r3, r12, r9\n"         \
    "ldr.w r12, [r1, #8 + " at "]\n"  \
    "smlad r6, r2, lr, r6\n"          \
    "ldr.w r2, [r0, #8 + " at "]\n"   \
    "smlad r10, r3, lr, r10\n"        \
    "ldr.w r3, [r0, #12 + " at "]\n"
#define QUAD_BYTES "120" /* code of two steps */

/* The last step of a round. It advances r0 and r1 and loads the end of the inputs instead of the next inputs, which may not
 * exist. */
#define LAST_STEP                     \
    "sxtb16 r12, r12\n"               \
    "ldr.w lr, [r1, #60]\n"           \
    "smlad r4, r2, r12, r4\n"         \
    "add.w r0, r0, #64\n"             \
    "smlad r8, r3, r12, r8\n"         \
    "ldr.w r12, [r1, #56]\n"          \
    "smlad r7, r2, lr, r7\n"          \
    "add.w r1, r1, #64\n"             \
    "smlad r11, r3, lr, r11\n"        \
    "sxtb16 lr, lr\n"                 \
    "smlad r5, r2, r12, r5\n"         \
    "smlad r6, r2, lr, r6\n"          \
    "ldr.w r2, [sp, #16]\n"           \
    "smlad r9, r3, r12, r9\n"         \
    "ldr.w r12, [r1]\n"               \
    "smlad r10, r3, lr, r10\n"        \
    "cmp r0, r2\n"

/* Outputs of four filters: SPLIT, MULTIPLY and TW_OUTPUT of tw_pair_s8.c for all eight sums, interleaved. Pixel 1 is stored
 * before pixel 0, since a single pixel is both. r0, lr: outputs of pixel 0 and 1; r2: multiplier; r3: power; r12: zero point.
 */
#define OUTPUTS(fix)                  \
    "sub r5, r5, r4\n"                \
    "ldr r2, [r1]\n"                  \
    "sub r9, r9, r8\n"                \
    "ldr r3, [r1, #4]\n"              \
    "sub r7, r7, r6\n"                \
    "ldr r12, [sp, #8]\n"             \
    "smmlar r8, r8, r2, r8\n"         \
    "sub r11, r11, r10\n"             \
    "smmlar r4, r4, r2, r4\n"         \
    "ldr r2, [r1, #8]\n"              \
    "asr r9, r9, #7\n"                \
    "ldr lr, [sp, #4]\n"              \
    fix("r8")                         \
    "ldr r0, [sp]\n"                  \
    fix("r4")                         \
    "smmlar r8, r8, r3, r12\n"        \
    "asr r5, r5, #7\n"                \
    "smmlar r4, r4, r3, r12\n"        \
    "ldr r3, [r1, #12]\n"             \
    "smmulr r9, r9, r2\n"             \
    "asr r11, r11, #7\n"              \
    "smmulr r5, r5, r2\n"             \
    "ldr r2, [r1, #16]\n"             \
    "ssat r8, #8, r8\n"               \
    "asr r7, r7, #7\n"                \
    "ssat r4, #8, r4\n"               \
    "strb r8, [lr]\n"                 \
    fix("r9")                         \
    "strb r4, [r0]\n"                 \
    fix("r5")                         \
    "smmlar r9, r9, r3, r12\n"        \
    "smmlar r5, r5, r3, r12\n"        \
    "ldr r3, [r1, #20]\n"             \
    "smmlar r10, r10, r2, r10\n"      \
    "smmlar r6, r6, r2, r6\n"         \
    "ldr r2, [r1, #24]\n"             \
    "ssat r9, #8, r9\n"               \
    "add r1, r1, #32\n"               \
    "ssat r5, #8, r5\n"               \
    "strb r9, [lr, #1]\n"             \
    fix("r10")                        \
    "strb r5, [r0, #1]\n"             \
    fix("r6")                         \
    "smmlar r10, r10, r3, r12\n"      \
    "smmlar r6, r6, r3, r12\n"        \
    "ldr r3, [r1, #-4]\n"             \
    "smmulr r11, r11, r2\n"           \
    "smmulr r7, r7, r2\n"             \
    "ldr r2, [sp, #24]\n"             \
    "ssat r10, #8, r10\n"             \
    "ssat r6, #8, r6\n"               \
    "strb r10, [lr, #2]\n"            \
    fix("r11")                        \
    "strb r6, [r0, #2]\n"             \
    fix("r7")                         \
    "smmlar r11, r11, r3, r12\n"      \
    "add r0, r0, #4\n"                \
    "smmlar r7, r7, r3, r12\n"        \
    "str r0, [sp]\n"                  \
    "ssat r11, #8, r11\n"             \
    "add lr, lr, #4\n"                \
    "ssat r7, #8, r7\n"               \
    "strb r11, [lr, #-1]\n"           \
    "cmp r0, r2\n"                    \
    "strb r7, [r0, #-1]\n"            \
    "str lr, [sp, #4]\n"

/* All groups of four filters.
 * Stack, 68 bytes: r4 .. r11, saved here since the code needs all registers; below them the tw_pair as in tw_pair_loop.h, with
 * three members replaced: +12 x less the bytes that the first round skips, +20 the entry of the loop, +28 the bytes skipped, of
 * inputs and of stream alike.
 * Loop: four quads per round; the first round enters at label 3 + skip * QUAD_BYTES.
 * Label 1: a group of filters: loads initial sums, the first inputs and the first weights. Label 2: another round.
 * Equals products() in tw_pair_loop.h in plain C. */
#define PRODUCTS(fix)                                                                          \
    "push {r4-r11}\n"                                                                          \
    "ldm r0, {r2-r10}\n"                                                                       \
    "adr r11, 3f\n"                                                                            \
    "lsl r9, r7, #4\n"                                                                         \
    "sub r5, r5, r9\n"                                                                         \
    "mov r12, #" QUAD_BYTES "\n"                                                               \
    "mla r7, r7, r12, r11\n"                                                                   \
    "orr r7, r7, #1\n"                                                                         \
    "push {r2-r10}\n"                                                                          \
    "mov r0, r5\n"                                                                             \
    "1:\n"                                                                                     \
    "ldm r1!, {r4-r7}\n"                                                                       \
    "ldr lr, [sp, #28]\n"                                                                      \
    "mov r8, r4\n"                                                                             \
    "ldr r12, [r1]\n"                                                                          \
    "mov r9, r5\n"                                                                             \
    "add r3, r0, lr\n"                                                                         \
    "sub r1, r1, lr\n"                                                                         \
    "ldr r2, [r3]\n"                                                                           \
    "mov r10, r6\n"                                                                            \
    "ldr r3, [r3, #4]\n"                                                                       \
    "mov r11, r7\n"                                                                            \
    "ldr pc, [sp, #20]\n"                                                                      \
    "2:\n"                                                                                     \
    "ldr r2, [r0]\n"                                                                           \
    "ldr r3, [r0, #4]\n"                                                                       \
    ".p2align 2\n"                                                                             \
    "3:\n"                                                                                     \
    ".irp at, 0, 8, 16, 24, 32, 40, 48\n" STEP("\\at") ".endr\n" LAST_STEP                     \
    "bne.w 2b\n"                                                                               \
    OUTPUTS(fix)                                                                               \
    "ldr r0, [sp, #12]\n"                                                                      \
    "bne.w 1b\n"                                                                               \
    "add sp, sp, #36\n"                                                                        \
    "pop {r4-r11}\n"

#define RUN(fix) __asm__ volatile(PRODUCTS(fix) : "+r"(frame), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory")

/* A tw_pair_fours. */
static const uint32_t *products(const tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    register const tw_pair *frame __asm__("r0") = pair;
    register const uint32_t *words __asm__("r1") = stream;
    TW_BY_SIGN(sign, RUN, TW_FIX, TW_NO_FIX);
    return words;
}

void tw_pair_products_s8_m7(tw_pair *pair, const uint32_t *stream, int32_t sign)
{
    tw_pair_all(pair, stream, sign, products);
}

#else

void tw_pair_products_s8_m7(tw_pair *pair, const uint32_t *stream, int32_t sign) { tw_pair_products_s8(pair, stream, sign); }

#endif
