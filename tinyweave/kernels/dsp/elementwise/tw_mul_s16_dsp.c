/* tw_mul_s16_dsp.c - int16 mul with broadcasting, with the Arm DSP extension: two elements at a time if neither operand repeats
 * along the channels. */
#include "tw_binary_dsp.h"

#include "tw_dsp.h"

/* Requantises a product, as in tw_mul_s8_dsp.c; twice: 2 * multiplier - 2^32. */
static inline int32_t rescale(const tw_mul_dsp *p, int32_t twice, int32_t product)
{
    const int32_t high = tw_smmlar(product, twice, product);
    return tw_clamp(tw_smmlar(high + ((high >> 31) & p->sign), p->power, 0), p->mul.out_min, p->mul.out_max);
}

static void mul_run(const tw_mul_dsp *params, const int16_t *a, int32_t a_step, const int16_t *b, int32_t b_step, int16_t *to,
                    int32_t count)
{
    const tw_mul_dsp p = *params; /* a copy, since stores through `to` might change the original */
    const int32_t twice = tw_shift_left(p.mul.multiplier, 1);
    int32_t i = 0;
    for (; (a_step & b_step) && i + 2 <= count; i += 2) {
        const uint32_t x = tw_word(a + i), y = tw_word(b + i);
        const int32_t first = rescale(&p, twice, tw_smulbb(x, y)), second = rescale(&p, twice, tw_smultt(x, y));
        tw_put_word(to + i, tw_lanes(first, second));
    }
    for (; i < count; ++i) {
        to[i] = (int16_t)rescale(&p, twice, a[i * a_step] * b[i * b_step]);
    }
}

TW_RUNS_S16_FORM(tw_mul_s16_dsp, tw_mul_dsp, &p->mul, int16_t, int16_t, mul_run)
