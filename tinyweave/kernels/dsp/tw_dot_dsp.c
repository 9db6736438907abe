/* tw_dot_dsp.c - dot products of int8 inputs and weights with the Arm DSP extension, for layers with a state.
 *
 * Layers: unidirectional_sequence_lstm, gru, simple_rnn, stateless_lstm; of single filters also svdf and fully_connected.
 *
 * Weights of tw_dot4_dsp: per quad of inputs k .. k + 3 four words: lanes (k, k + 2) of filters 0 and 1, of filters 2 and 3,
 * then lanes (k + 1, k + 3) of the same pairs. A lane is w0 + 256 * w1, as in tw_conv_dsp.h. The weights of the last one to three
 * inputs follow as bytes, [input][filter]. So they take as many bytes as [filter][input]. Those of tw_dot1_dsp: [input].
 *
 * Cost: of four filters 18 instructions per 16 MACs and 20 more, of one filter 8 per 4 MACs.
 */
#include "tw_dot_dsp.h"

#include "tw_dsp.h"

#define FILTERS 4 /* of a group */

static inline int32_t add_to(int32_t sum, int32_t term) { return tw_signed((uint32_t)sum + (uint32_t)term); }

#if TW_HAS_DSP

/* Two inputs, in register x, times four filters, whose packed weights are in w_0 and w_1. SMLAD with a packed word adds to the
 * pair's odd filter; only then SXTB16 replaces the word by the even filter's weights. Equals tw_add_two_s8 for each pair. */
#define PAIRS(x, w_0, w_1)                        \
    "smlad r5, " x ", " w_0 ", r5\n"              \
    "sxtb16 " w_0 ", " w_0 "\n"                   \
    "smlad r7, " x ", " w_1 ", r7\n"              \
    "sxtb16 " w_1 ", " w_1 "\n"                   \
    "smlad r4, " x ", " w_0 ", r4\n"              \
    "smlad r6, " x ", " w_1 ", r6\n"

/* Four inputs times four filters, 16 instructions of four bytes. SXTAB16 widens two inputs and takes off their zero point. */
#define QUAD                                  \
    "ldr.w r3, [r0], #4\n"                    \
    "ldm.w r1!, {r8-r11}\n"                   \
    "sxtab16 r2, lr, r3\n"                    \
    "sxtab16 r3, lr, r3, ror #8\n"            \
    PAIRS("r2", "r8", "r9") PAIRS("r3", "r10", "r11")

/* Adds the products of all quads of inputs with four filters to their sums.
 * Registers at entry: r0: inputs; r1: weights; r3: sums; r12: end of the inputs; lr: lanes of the negated zero point. In the
 * loop r2, r3: inputs; r4 .. r7: packed sums; r8 .. r11: weights.
 * Stack, 36 bytes: r3, and r4 .. r11, saved here since the code needs all registers.
 * Loop: one quad per round; two would save an instruction per 16 MACs and need 80 bytes more.
 * Order: one LDM loads the weights of a quad right after its inputs, so that the loads follow each other; four sums, the zero
 * point and the end of the inputs leave four registers for weights.
 * End: an odd filter's sum is (its packed sum - the even filter's) / 2^8.
 * Equals add_products() below in plain C. */
#define BEGIN                        \
    "mov r4, #0\n"                   \
    "mov r5, r4\n"                   \
    "mov r6, r4\n"                   \
    "mov r7, r4\n"                   \
    "1:\n"                           \
    QUAD                             \
    "cmp r0, r12\n"                  \
    "bne.w 1b\n"
#define END                          \
    "ldm.w r3, {r8-r11}\n"           \
    "sub r5, r5, r4\n"               \
    "sub r7, r7, r6\n"               \
    "add r4, r4, r8\n"               \
    "add r5, r9, r5, asr #8\n"       \
    "add r6, r6, r10\n"              \
    "add r7, r11, r7, asr #8\n"
#define SUMS                         \
    "push {r3-r11}\n"                \
    BEGIN                            \
    "pop {r3}\n"                     \
    END                              \
    "stm r3, {r4-r7}\n"              \
    "pop {r4-r11}\n"

/* SUMS of several groups of four filters. r2: groups left. Stack, 44 bytes: r0, r2 and r3 at the begin of the next group. */
#define SUMS_OF_GROUPS               \
    "push {r0, r2-r11}\n"            \
    "2:\n"                           \
    BEGIN                            \
    "ldm sp, {r0, r2, r3}\n"         \
    END                              \
    "stm r3!, {r4-r7}\n"             \
    "subs r2, r2, #1\n"              \
    "strd r2, r3, [sp, #4]\n"        \
    "bne.w 2b\n"                     \
    "add sp, sp, #12\n"              \
    "pop {r4-r11}\n"

/* Adds the products of `quads` quads of inputs, 1 .. TW_DOT_MOST / 4, with four filters; returns the end of their weights. */
static inline const int8_t *add_products(const int8_t *x, int32_t quads, const int8_t *weights, uint32_t zeros, int32_t *sums)
{
    register const int8_t *from __asm__("r0") = x;
    register const int8_t *words __asm__("r1") = weights;
    register int32_t *to __asm__("r3") = sums;
    register const int8_t *end __asm__("r12") = x + 4 * quads;
    register uint32_t less __asm__("lr") = zeros;
    __asm__ volatile(SUMS : "+r"(from), "+r"(words), "+r"(to), "+r"(end), "+r"(less) : : "r2", "cc", "memory");
    return words;
}

void tw_dot4_whole_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t groups, int32_t *sums)
{
    register const int8_t *from __asm__("r0") = x;
    register const int8_t *words __asm__("r1") = weights;
    register int32_t left __asm__("r2") = groups;
    register int32_t *to __asm__("r3") = sums;
    register const int8_t *end __asm__("r12") = x + count;
    register uint32_t less __asm__("lr") = tw_lanes(-zero, -zero);
    __asm__ volatile(SUMS_OF_GROUPS : "+r"(from), "+r"(words), "+r"(left), "+r"(to), "+r"(end), "+r"(less) : : "cc", "memory");
}

#else

static inline const int8_t *add_products(const int8_t *x, int32_t quads, const int8_t *weights, uint32_t zeros, int32_t *sums)
{
    int32_t packed[FILTERS] = {0};
    for (const int8_t *const end = x + 4 * quads; x != end; x += 4) {
        const uint32_t word = tw_word(x), even = tw_sxtab16(zeros, word), odd = tw_sxtab16_odd(zeros, word);
        for (int32_t pair = 0; pair < FILTERS; pair += 2, weights += 4) {
            tw_add_two_s8(even, tw_word(weights), packed + pair);
            tw_add_two_s8(odd, tw_word(weights + 8), packed + pair);
        }
        weights += 8;
    }
    for (int32_t i = 0; i < FILTERS; ++i) {
        sums[i] = add_to(sums[i], tw_sum_s8(packed, i, 0));
    }
    return weights;
}

void tw_dot4_whole_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t groups, int32_t *sums)
{
    for (; groups > 0; --groups, sums += FILTERS) {
        weights = add_products(x, count / 4, weights, tw_lanes(-zero, -zero), sums);
    }
}

#endif

void tw_dot4_any_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sums)
{
    const uint32_t zeros = tw_lanes(-zero, -zero);
    for (int32_t quads = count / 4, now; quads > 0; quads -= now) {
        now = tw_min(quads, TW_DOT_MOST / 4);
        weights = add_products(x, now, weights, zeros, sums);
        x += 4 * now;
    }
    if (count % 4 > 0) {
        const int8_t *const end = x + count % 4;
        int32_t sum_0 = sums[0], sum_1 = sums[1], sum_2 = sums[2], sum_3 = sums[3];
        for (; x != end; ++x, weights += FILTERS) {
            const uint32_t input = (uint32_t)(*x - zero), word = tw_word(weights);
            const uint32_t even = tw_sxtb16(word), odd = tw_sxtb16_odd(word);
            sum_0 = tw_smlabb(input, even, sum_0);
            sum_1 = tw_smlabb(input, odd, sum_1);
            sum_2 = tw_smlabt(input, even, sum_2);
            sum_3 = tw_smlabt(input, odd, sum_3);
        }
        sums[0] = sum_0;
        sums[1] = sum_1;
        sums[2] = sum_2;
        sums[3] = sum_3;
    }
}

void tw_dot1_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum)
{
    const uint32_t zeros = tw_lanes(-zero, -zero);
    const int8_t *const end = x + count, *const quads = x + (count & ~3);
    int32_t total = *sum;
    for (; x != quads; x += 4) {
        const uint32_t inputs = tw_word(x), word = tw_word(weights);
        total = tw_smlad(tw_sxtab16(zeros, inputs), tw_sxtb16(word), total);
        total = tw_smlad(tw_sxtab16_odd(zeros, inputs), tw_sxtb16_odd(word), total);
        weights += 4;
    }
    for (; x != end; ++x) {
        total = add_to(total, (*x - zero) * *weights++);
    }
    *sum = total;
}
