/* tw_add_s16_mve.c - int16 sum or difference with broadcasting with the Arm MVE extension, four elements at a time. */
#include "tw_binary.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* The outputs of four elements, before the clamp. */
static inline int32x4_t four(const tw_add *p, int32x4_t a, int32x4_t b)
{
    const int32x4_t scaled_a = tw_mve_requantize_right(vshlq_r_s32(a, p->left_shift), p->a_multiplier, p->a_shift);
    const int32x4_t scaled_b = tw_mve_requantize_right(vshlq_r_s32(b, p->left_shift), p->b_multiplier, p->b_shift);
    return tw_mve_requantize_right(vmlaq_n_s32(scaled_a, scaled_b, p->b_sign), p->out_multiplier, p->out_shift);
}

TW_NOT_INLINE void add_run(const tw_add *params, const int16_t *a, int32_t a_step, const int16_t *b, int32_t b_step, int16_t *to,
                           int32_t count)
{
    const tw_add p = *params; /* a copy, since stores through `to` might change the original */
    const int32x4_t low = vdupq_n_s32(p.out_min), high = vdupq_n_s32(p.out_max);
    int16_t repeated[4]; /* the operand with step 0; at most one has it, or the run is one element */
    if (!(a_step & b_step)) {
        vstrhq_s32(repeated, vdupq_n_s32(a_step ? *b : *a));
        a = a_step ? a : repeated;
        b = a_step ? repeated : b;
    }
    for (int32_t i = count >> 2; i > 0; --i) {
        vstrhq_s32(to, vminq_s32(vmaxq_s32(four(&p, vldrhq_s32(a), vldrhq_s32(b)), low), high));
        a += 4 * a_step;
        b += 4 * b_step;
        to += 4;
    }
    if (count & 3) {
        const mve_pred16_t some = vctp32q((uint32_t)count & 3);
        const int32x4_t sum = four(&p, vldrhq_z_s32(a, some), vldrhq_z_s32(b, some));
        vstrhq_p_s32(to, vminq_s32(vmaxq_s32(sum, low), high), some);
    }
}

TW_RUNS_S16_FORM(tw_add_s16_mve, tw_add, p, int16_t, int16_t, add_run)

#else

TW_EACH_S16_FORM(tw_add_s16_mve, tw_add, int16_t, int16_t, tw_add_element(p, x, y))

#endif
