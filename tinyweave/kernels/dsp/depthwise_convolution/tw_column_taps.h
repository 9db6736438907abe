/* tw_column_taps.h - taps of one output of a depthwise convolution along a map of one column, four channels at a time. The layout
 * of the weights is that of tw_depthwise_lean_dsp.h.
 *
 * Cost: 11 instructions per 4 MACs; rescaling not included.
 */
#ifndef TW_COLUMN_TAPS_H
#define TW_COLUMN_TAPS_H

#include "tw_conv_dsp.h"
#include "tw_dsp.h"

/* Adds the products of a run of taps with four channels, the first at x, to four sums; returns the weights of the next tap.
 * Registers: [x]: the current tap; [w]: weights; [n]: rounds left; [a] .. [d]: sums; [even], [odd]: channels (0, 2) and (1, 3) of
 * the tap; [p], [q]: their weights. No stack. Loop: two taps per round; of an odd number the first round begins at label 2.
 * Order: three LDR in a row take a cycle less than LDR and LDRD.
 * Without optimisation, compilers have too few registers for the assembly. */
#if TW_HAS_DSP && defined(__OPTIMIZE__)
#define TAP_OF_ONE                            \
    "ldr %[even], [%[x]]\n"                   \
    "ldr %[q], [%[w], #4]\n"                  \
    "ldr %[p], [%[w]], #8\n"                  \
    "add %[x], %[x], %[step]\n"               \
    "sxtb16 %[odd], %[even], ror #8\n"        \
    "sxtb16 %[even], %[even]\n"               \
    "smlabb %[b], %[odd], %[q], %[b]\n"       \
    "smlabb %[a], %[even], %[p], %[a]\n"      \
    "smlatt %[d], %[odd], %[q], %[d]\n"       \
    "smlatt %[c], %[even], %[p], %[c]\n"
#endif
static inline const uint32_t *tw_column_taps(const int8_t *x, int32_t step, int32_t count, const uint32_t *weights, int32_t *sums)
{
#if TW_HAS_DSP && defined(__OPTIMIZE__)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], rounds = count + 1, even, odd, p, q;
    __asm__ volatile(
        "lsrs %[n], %[n], #1\n"
        "bcc 2f\n"
        "1:\n" TAP_OF_ONE
        "2:\n" TAP_OF_ONE
        "subs %[n], %[n], #1\n"
        "bne 1b\n"
        : [x] "+r"(x), [w] "+r"(weights), [n] "+r"(rounds), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d),
          [even] "=&r"(even), [odd] "=&r"(odd), [p] "=&r"(p), [q] "=&r"(q)
        : [step] "r"(step)
        : "cc", "memory");
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#else
    for (; count > 0; --count, x += step, weights += 2) {
        const uint32_t four = tw_word(x), even = tw_sxtb16(four), odd = tw_sxtb16_odd(four);
        sums[0] = tw_smlabb(even, weights[0], sums[0]);
        sums[1] = tw_smlabb(odd, weights[1], sums[1]);
        sums[2] = tw_smlatt(even, weights[0], sums[2]);
        sums[3] = tw_smlatt(odd, weights[1], sums[3]);
    }
#endif
    return weights;
}

/* Rescales four sums; returns the stream of the next four channels. */
static inline const uint32_t *tw_column_finish(const int32_t *sums, const uint32_t *stream, int32_t zero, int32_t sign, int8_t *to)
{
    to[0] = tw_rescale_doubled(sums[0], tw_signed(stream[0]), tw_signed(stream[1]), zero, sign);
    to[1] = tw_rescale_doubled(sums[1], tw_signed(stream[2]), tw_signed(stream[3]), zero, sign);
    to[2] = tw_rescale_doubled(sums[2], tw_signed(stream[4]), tw_signed(stream[5]), zero, sign);
    to[3] = tw_rescale_doubled(sums[3], tw_signed(stream[6]), tw_signed(stream[7]), zero, sign);
    return stream + 8;
}

#endif
