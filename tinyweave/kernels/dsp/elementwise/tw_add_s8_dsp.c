/* tw_add_s8_dsp.c - int8 add or sub of maps of one shape, with the Arm DSP extension.
 *
 * Cost, fitted for add (layer_cycles.json): 23 cycles per element on a Cortex-M4, 19 on a Cortex-M7. */
#include "tw_binary_dsp.h"

#include "tw_dsp.h"

/* Parameters in the form that the loop needs. */
typedef struct {
    int32_t plain_offset, scaled_offset, multiplier, half, mask, exponent;
    int32_t out_multiplier, out_power, out_zero, sign;
} tw_terms;

/* The output of one element. */
static inline int8_t add_one(const tw_terms *t, int32_t plain, int32_t scaled)
{
    /* TFLite shifts both operands left by 20; here sums and the operand of SMMULR are doubled besides */
    const int32_t high = tw_smmulr(tw_shift_left(scaled, 21) - t->scaled_offset, t->multiplier);
    const int32_t rounded = (high + ((high >> 31) & t->mask) + t->half) >> t->exponent;
    const int32_t doubled = tw_shift_left(plain, 20) - t->plain_offset + 2 * rounded;
    return tw_rescale_doubled(doubled, t->out_multiplier, t->out_power, t->out_zero, t->sign);
}

/* The outputs of `count` neighbouring elements. */
static void add_run(const tw_add_dsp *p, const int8_t *plain, const int8_t *scaled, int8_t *to, int32_t count)
{
    const tw_terms t = {
        tw_shift_left(p->plain_zero, 20), tw_shift_left(p->scaled_zero, 21), p->multiplier,
        p->exponent ? tw_shift_left(1, p->exponent - 1) : 0, p->exponent ? -1 : 0, p->exponent,
        p->out_multiplier, p->out_power, p->out_zero, p->sign,
    };
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        to[0] = add_one(&t, plain[0], scaled[0]);
        to[1] = add_one(&t, plain[1], scaled[1]);
        to[2] = add_one(&t, plain[2], scaled[2]);
        to[3] = add_one(&t, plain[3], scaled[3]);
        plain += 4;
        scaled += 4;
        to += 4;
    }
    for (; i < count; ++i) {
        *to++ = add_one(&t, *plain++, *scaled++);
    }
}

TW_ALIKE_FORMS(tw_add_s8_dsp, tw_add_dsp,
               add_run(p, from_a, from_b, to, count); tw_clamp_all(to, count, p->out_min, p->out_max))
