/* tw_dot_raw_dsp.c - dot products of int8 inputs and weights with the Arm DSP extension: any weights, in the portable order.
 *
 * Layers: svdf, and fully_connected with few constants. Weights: [filter][input].
 *
 * Cost: 49 instructions per 32 MACs, since each weight is widened for one product only.
 */
#include "tw_dot_raw_dsp.h"

#if TW_HAS_DSP

/* The four inputs in r8, r9 times the four weights in `word`. */
#define PRODUCTS(word, sum)                    \
    "sxtb16 r12, " word "\n"                   \
    "sxtb16 " word ", " word ", ror #8\n"      \
    "smlad " sum ", r8, r12, " sum "\n"        \
    "smlad " sum ", r9, " word ", " sum "\n"

/* Four inputs times four filters. */
#define QUAD                          \
    "ldr r9, [r0], #4\n"              \
    "ldr r10, [r1, r2]\n"             \
    "ldr r11, [r1, r2, lsl #1]\n"     \
    "sxtab16 r8, lr, r9\n"            \
    "sxtab16 r9, lr, r9, ror #8\n"    \
    PRODUCTS("r10", "r5") PRODUCTS("r11", "r6") \
    "ldr r10, [r1, r3]\n"             \
    "ldr r11, [r1], #4\n"             \
    PRODUCTS("r10", "r7") PRODUCTS("r11", "r4")

/* Adds the products of all quads of inputs with four filters to their sums.
 * Registers at entry: r0: inputs; r1: weights; r2: bytes of a filter; r3: sums; r12: end of the inputs; lr: lanes of the negated
 * zero point. In the loop r3: bytes of three filters; r4 .. r7: sums; r8, r9: inputs k, k + 2 and k + 1, k + 3, less the zero
 * point; r10, r11: weights of two filters; r12: lanes of weights.
 * Stack, 40 bytes: r3; r4 .. r11, saved here since the code needs all registers; [sp, #36]: end of the inputs.
 * Loop: two quads per round; the first round of an odd number of quads enters at label 2.
 * Order: loads follow each other. That of the first filter comes last, since it moves the weights' pointer on.
 * Equals the function below in plain C. */
#define SUMS                          \
    "push {r3-r12}\n"                 \
    "ldm r3, {r4-r7}\n"               \
    "add r3, r2, r2, lsl #1\n"        \
    "sub r12, r12, r0\n"              \
    "tst r12, #4\n"                   \
    "bne 2f\n"                        \
    "1:\n" QUAD                       \
    "2:\n" QUAD                       \
    "ldr r12, [sp, #36]\n"            \
    "cmp r0, r12\n"                   \
    "bne 1b\n"                        \
    "pop {r3}\n"                      \
    "stm r3, {r4-r7}\n"               \
    "pop {r4-r12}\n"

void tw_dot4_quads_dsp(const int8_t *x, const int8_t *end, const int8_t *weights, int32_t filter, uint32_t zeros, int32_t *sums)
{
    register const int8_t *from __asm__("r0") = x;
    register const int8_t *bytes __asm__("r1") = weights;
    register int32_t step __asm__("r2") = filter;
    register int32_t *to __asm__("r3") = sums;
    register const int8_t *stop __asm__("r12") = end;
    register uint32_t less __asm__("lr") = zeros;
    __asm__ volatile(SUMS : "+r"(from), "+r"(bytes), "+r"(step), "+r"(to), "+r"(stop), "+r"(less) : : "cc", "memory");
}

#else

void tw_dot4_quads_dsp(const int8_t *x, const int8_t *end, const int8_t *weights, int32_t filter, uint32_t zeros, int32_t *sums)
{
    for (; x != end; x += 4, weights += 4) {
        const uint32_t even = tw_sxtab16(zeros, tw_word(x)), odd = tw_sxtab16_odd(zeros, tw_word(x));
        for (int32_t i = 0; i < 4; ++i) {
            const uint32_t word = tw_word(weights + i * filter);
            sums[i] = tw_smlad(odd, tw_sxtb16_odd(word), tw_smlad(even, tw_sxtb16(word), sums[i]));
        }
    }
}

#endif
