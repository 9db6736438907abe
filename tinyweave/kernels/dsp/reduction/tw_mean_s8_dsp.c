/* tw_mean_s8_dsp.c - int8 mean over any axes with the Arm DSP extension: two elements per SXTAB16.
 *
 * Cost: of four neighbouring channels 16 instructions per 16 elements (tw_sums_dsp.h), of neighbours that are added up 5 per 4.
 */
#include "tw_reduction.h"

#include "tw_mean.h"
#include "tw_sums_dsp.h"

#define MOST_WORDS 127 /* two bytes each per lane */

/* The sum of `count` neighbours. */
static int32_t sum_of_run(const int8_t *from, int32_t count)
{
    int32_t sum = 0;
    while (count >= 4) {
        const int32_t words = tw_min(count / 4, MOST_WORDS);
        const int8_t *const end = from + 4 * words;
        uint32_t lanes = 0;
        for (; from != end; from += 4) {
            const uint32_t word = tw_word(from);
            lanes = tw_sxtab16_odd(tw_sxtab16(lanes, word), word);
        }
        sum += tw_lane(lanes, 0) + tw_lane(lanes, 1);
        count -= 4 * words;
    }
    for (; count > 0; --count) {
        sum += *from++;
    }
    return sum;
}

/* A tw_sums_adder. */
static void add_four(int32_t *sums, int32_t channels, const int8_t *from, int32_t step, int32_t count)
{
    if (step == 1) {
        sums[0] += sum_of_run(from, count);
        return;
    }
    if (channels < 4) {
        tw_sums_add_four(sums, channels, from, step, count);
        return;
    }
    while (count > 0) {
        const int32_t some = tw_min(count, TW_SUMS_MOST);
        const tw_sums_lanes none = {0, 0};
        tw_sums_add_lanes(sums, tw_sums_add_pixels(none, from, step, some));
        from += some * step;
        count -= some;
    }
}

/* A tw_mean_finisher. Clamped to int16 first, the sum with the zero point cannot overflow. */
static inline int8_t finish(const tw_mean *p, int32_t sum)
{
    return (int8_t)tw_ssat8(tw_ssat16(tw_requantize(sum, p->multiplier, p->shift)) + p->out_zero);
}

TW_MEAN_FORMS(tw_mean_s8_dsp, add_four, finish)
