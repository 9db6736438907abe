/* tw_dot_dsp.c - dot products of int8 inputs and weights with the Arm DSP extension, four inputs at a time.
 *
 * Layers: unidirectional_sequence_lstm and svdf. Weights: [filter][input], as portable kernels have them.
 * Cost: of four filters 28 instructions per 16 MACs; the widened inputs serve all four. */
#include "tw_dot_dsp.h"

#include "tw_dsp.h"

/* Four inputs less their zero point: lanes 0 and 2, lanes 1 and 3. */
typedef struct { uint32_t even, odd; } tw_quad;

static inline tw_quad widened(const int8_t *x, uint32_t zeros)
{
    const uint32_t word = tw_word(x);
    const tw_quad quad = {tw_ssub16(tw_sxtb16(word), zeros), tw_ssub16(tw_sxtb16_odd(word), zeros)};
    return quad;
}

static inline int32_t add_quad(tw_quad x, const int8_t *weights, int32_t sum)
{
    const uint32_t word = tw_word(weights);
    return tw_smlad(x.odd, tw_sxtb16_odd(word), tw_smlad(x.even, tw_sxtb16(word), sum));
}

static inline int32_t add_one(int32_t x, int32_t weight, int32_t sum) { return tw_signed((uint32_t)sum + (uint32_t)(x * weight)); }

void tw_dot4_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums)
{
    const uint32_t zeros = tw_lanes(zero, zero);
    const int8_t *const end = x + count, *const quads = x + (count & ~3), *others = weights + 2 * filter;
    int32_t sum_0 = sums[0], sum_1 = sums[1], sum_2 = sums[2], sum_3 = sums[3];
    for (; x != quads; x += 4) {
        const tw_quad quad = widened(x, zeros);
        sum_0 = add_quad(quad, weights, sum_0);
        sum_1 = add_quad(quad, weights + filter, sum_1);
        sum_2 = add_quad(quad, others, sum_2);
        sum_3 = add_quad(quad, others + filter, sum_3);
        weights += 4;
        others += 4;
    }
    for (; x != end; ++x) {
        const int32_t value = *x - zero;
        sum_0 = add_one(value, weights[0], sum_0);
        sum_1 = add_one(value, weights[filter], sum_1);
        sum_2 = add_one(value, others[0], sum_2);
        sum_3 = add_one(value, others[filter], sum_3);
        ++weights;
        ++others;
    }
    sums[0] = sum_0;
    sums[1] = sum_1;
    sums[2] = sum_2;
    sums[3] = sum_3;
}

void tw_dot1_dsp(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum)
{
    const uint32_t zeros = tw_lanes(zero, zero);
    const int8_t *const end = x + count, *const quads = x + (count & ~3);
    int32_t total = *sum;
    for (; x != quads; x += 4) {
        total = add_quad(widened(x, zeros), weights, total);
        weights += 4;
    }
    for (; x != end; ++x) {
        total = add_one(*x - zero, *weights++, total);
    }
    *sum = total;
}
