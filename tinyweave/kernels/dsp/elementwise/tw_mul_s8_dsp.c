/* tw_mul_s8_dsp.c - int8 mul with broadcasting, with the Arm DSP extension: four neighbouring elements at a time if neither
 * operand repeats along the channels. */
#include "tw_binary_dsp.h"

#include "tw_dsp.h"

/* Parameters in the form that the loop needs. */
typedef struct { int32_t a_zero, b_zero, out_zero, multiplier, power; } tw_terms;

/* Requantises a product. */
static inline int8_t rescale(const tw_terms *t, int32_t product, int32_t sign)
{
    /* t->multiplier is 2 * multiplier - 2^32: SMMLAR adds the product once more, so it need not be doubled */
    const int32_t high = tw_smmlar(product, t->multiplier, product);
    return (int8_t)tw_ssat8(tw_smmlar(high + ((high >> 31) & sign), t->power, t->out_zero));
}

/* Multiplies whole fours of elements; sign: that of the parameters, as a constant for the compiler. */
static inline void mul_fours(const tw_terms *t, const int8_t *a, const int8_t *b, int8_t *to, int32_t count, int32_t sign)
{
    const uint32_t a_zeros = tw_lanes(t->a_zero, t->a_zero), b_zeros = tw_lanes(t->b_zero, t->b_zero);
    for (int32_t i = 0; i + 4 <= count; i += 4) {
        const uint32_t a_word = tw_word(a + i), b_word = tw_word(b + i);
        const uint32_t a_even = tw_ssub16(tw_sxtb16(a_word), a_zeros), a_odd = tw_ssub16(tw_sxtb16_odd(a_word), a_zeros);
        const uint32_t b_even = tw_ssub16(tw_sxtb16(b_word), b_zeros), b_odd = tw_ssub16(tw_sxtb16_odd(b_word), b_zeros);
        to[i] = rescale(t, tw_smulbb(a_even, b_even), sign);
        to[i + 1] = rescale(t, tw_smulbb(a_odd, b_odd), sign);
        to[i + 2] = rescale(t, tw_smultt(a_even, b_even), sign);
        to[i + 3] = rescale(t, tw_smultt(a_odd, b_odd), sign);
    }
}

/* Multiplies `count` elements; an operand advances by its step, 0 or 1, per element. */
static void mul_run(const tw_mul_dsp *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                    int32_t count)
{
    const tw_mul *p = &params->mul;
    const tw_terms t = {p->a_zero, p->b_zero, p->out_zero, tw_shift_left(p->multiplier, 1), params->power};
    const int32_t sign = params->sign;
    int32_t done = 0;
    if (a_step & b_step) {
        done = count & ~3;
        if (sign) {
            mul_fours(&t, a, b, to, count, -1);
        } else {
            mul_fours(&t, a, b, to, count, 0);
        }
    }
    for (int32_t i = done; i < count; ++i) {
        to[i] = rescale(&t, (a[i * a_step] - t.a_zero) * (b[i * b_step] - t.b_zero), sign);
    }
}

void tw_mul_s8_dsp_part(const tw_mul_dsp *params, tw_view a, tw_view b, tw_view out, tw_range range)
{
    const tw_mul *p = &params->mul;
    const tw_steps a_steps = tw_broadcast_steps(p->a, p->out), b_steps = tw_broadcast_steps(p->b, p->out);
    const int32_t together = tw_broadcast_together(p->a, p->b, p->out, range), count = together * p->out.c;
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const int8_t *from_a = tw_broadcast_pixel(&a, p->a, p->out, row, range.col_begin);
        const int8_t *from_b = tw_broadcast_pixel(&b, p->b, p->out, row, range.col_begin);
        int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, p->out.c);
        for (int32_t col = range.col_begin; col < range.col_end; col += together) {
            mul_run(params, from_a, a_steps.channel, from_b, b_steps.channel, to, count);
            tw_clamp_all(to, count, p->out_min, p->out_max);
            from_a += together * a_steps.col;
            from_b += together * b_steps.col;
            to += count;
        }
    }
}

TW_WHOLE_BROADCAST(tw_mul_s8_dsp, tw_mul_dsp, &p->mul)
