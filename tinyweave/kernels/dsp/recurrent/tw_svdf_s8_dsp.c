/* tw_svdf_s8_dsp.c - int8 SVDF layer with the Arm DSP extension: the products of tw_dot_raw_dsp.c.
 *
 * The state of a filter moves by one byte while its words are multiplied with the time weights. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_dot_raw_dsp.h"
#include "tw_dsp.h"
#include "tw_svdf.h"

#define FILTERS 16 /* whose sums are on the stack; a multiple of 4 */

/* Computes the sums of products of `count` filters with the input. */
static inline void multiply(const tw_svdf *p, const int8_t *in, int32_t filter, int32_t count, int32_t *sums)
{
    const int8_t *weights = p->weights + filter * p->depth;
    const int32_t *const fours = sums + (count & ~3), *const end = sums + count;
    memset(sums, 0, FILTERS * sizeof *sums);
    for (; sums != fours; sums += 4, weights += 4 * p->depth) {
        tw_dot4_raw_dsp(in, p->in_zero, weights, p->depth, p->depth, sums);
    }
    for (; sums != end; ++sums, weights += p->depth) {
        tw_dot1_dsp(in, p->in_zero, weights, p->depth, sums);
    }
}

/* tw_requantize of `count` sums. */
TW_NOT_INLINE void rescale(int32_t *sums, int32_t count, int32_t multiplier, int32_t shift)
{
    const int32_t *const end = sums + count;
    for (; sums != end && shift >= 0; ++sums) {
        *sums = tw_requantize(*sums, multiplier, shift);
    }
    for (const int32_t twice = tw_shift_left(multiplier, 1); sums != end; ++sums) {
        *sums = tw_requantize_right(*sums, twice, -1 - shift);
    }
}

/* Adds the products of four bytes of the state, less its zero point, with their time weights. */
static inline int32_t add_four(int32_t sum, uint32_t state, const int8_t *weights, uint32_t zeros)
{
    const uint32_t word = tw_word(weights);
    sum = tw_smlad(tw_sxtab16(zeros, state), tw_sxtb16(word), sum);
    return tw_smlad(tw_sxtab16_odd(zeros, state), tw_sxtb16_odd(word), sum);
}

/* One filter: forgets the oldest product, keeps the newest, and returns the sum over time. */
static inline int32_t keep8(int32_t newest, int8_t *state, const int8_t *weights, int32_t steps, int32_t zero)
{
    const uint32_t zeros = tw_lanes(-zero, -zero);
    int8_t *const last = state + steps - 1;
    int32_t sum = 0;
    for (; last - state >= 4; state += 4, weights += 4) {
        const uint32_t word = tw_word(state + 1);
        tw_put_word(state, word);
        sum = add_four(sum, word, weights, zeros);
    }
    if (last - state == 3) {
        const uint32_t word = tw_word(state) >> 8 | (uint32_t)newest << 24;
        tw_put_word(state, word);
        return add_four(sum, word, weights, zeros);
    }
    for (; state != last; ++state) {
        *state = state[1];
        sum += (*state - zero) * *weights++;
    }
    *last = (int8_t)(uint8_t)newest;
    return sum + (*last - zero) * *weights;
}

/* Replaces the newest products of filters, from `filter` on, by their sums over time. */
TW_NOT_INLINE void weigh(const tw_svdf *p, int32_t filter, int32_t *sums, const int32_t *end, int8_t *state)
{
    const int32_t steps = p->steps, zero = p->state_zero, bytes = steps * p->state_bytes;
    const int8_t *weights = (const int8_t *)p->time_weights + filter * bytes;
    for (; sums != end; ++sums, state += bytes, weights += bytes) {
        if (p->state_bytes == 2) {
            *sums = tw_svdf_keep16(*sums, (int16_t *)(void *)state, (const int16_t *)(const void *)weights, steps);
        } else { /* the zero point is added after the clamp, as in tw_svdf.h */
            *sums = keep8(tw_ssat8(*sums) + zero, state, weights, steps, zero);
        }
    }
}

void tw_svdf_s8_dsp(const tw_svdf *p, const void *in, void *state, void *out)
{
    const int32_t filters = p->units * p->rank, bytes = p->steps * p->state_bytes;
    int8_t *memory = (int8_t *)state, *to = (int8_t *)out;
    for (int32_t b = 0; b < p->batch; ++b) {
        const int32_t *bias = p->bias;
        int32_t total = 0, left = p->rank; /* of the unit: the sum of its filters so far, and the filters left */
        for (int32_t filter = 0; filter < filters; filter += FILTERS) {
            const int32_t count = tw_min(FILTERS, filters - filter);
            int32_t sums[FILTERS], units = 0;
            multiply(p, (const int8_t *)in + b * p->depth, filter, count, sums);
            rescale(sums, count, p->state_multiplier, p->state_shift);
            weigh(p, filter, sums, sums + count, memory);
            memory += count * bytes;
            for (int32_t i = 0; i < count; ++i) {
                total = tw_signed((uint32_t)total + (uint32_t)sums[i]);
                if (--left == 0) {
                    sums[units++] = bias ? tw_signed((uint32_t)total + (uint32_t)*bias++) : total;
                    total = 0;
                    left = p->rank;
                }
            }
            rescale(sums, units, p->multiplier, p->shift);
            for (int32_t i = 0; i < units; ++i) {
                *to++ = (int8_t)tw_ssat8(sums[i] + p->out_zero);
            }
        }
    }
}
