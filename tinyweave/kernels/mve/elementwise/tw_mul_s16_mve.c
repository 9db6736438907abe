/* tw_mul_s16_mve.c - int16 mul with broadcasting with the Arm MVE extension, eight elements at a time. */
#include "tw_binary.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* The outputs of eight elements. VQMOVN clamps to int16. */
static inline int16x8_t eight(const tw_mul *p, int16x8_t a, int16x8_t b)
{
    const int32x4_t even = tw_mve_requantize_right(vmullbq_int_s16(a, b), p->multiplier, p->shift);
    const int32x4_t odd = tw_mve_requantize_right(vmulltq_int_s16(a, b), p->multiplier, p->shift);
    const int16x8_t scaled = vqmovntq_s32(vqmovnbq_s32(a, even), odd); /* all lanes of a are replaced */
    return vminq_s16(vmaxq_s16(scaled, vdupq_n_s16((int16_t)p->out_min)), vdupq_n_s16((int16_t)p->out_max));
}

TW_NOT_INLINE void mul_run(const tw_mul *params, const int16_t *a, int32_t a_step, const int16_t *b, int32_t b_step, int16_t *to,
                           int32_t count)
{
    const tw_mul p = *params; /* a copy, since stores through `to` might change the original */
    int16_t repeated[8];      /* the operand with step 0; at most one has it, or the run is one element */
    if (!(a_step & b_step)) {
        vstrhq_s16(repeated, vdupq_n_s16(a_step ? *b : *a));
        a = a_step ? a : repeated;
        b = a_step ? repeated : b;
    }
    for (int32_t i = count >> 3; i > 0; --i) {
        vstrhq_s16(to, eight(&p, vldrhq_s16(a), vldrhq_s16(b)));
        a += 8 * a_step;
        b += 8 * b_step;
        to += 8;
    }
    if (count & 7) {
        const mve_pred16_t some = vctp16q((uint32_t)count & 7);
        vstrhq_p_s16(to, eight(&p, vldrhq_z_s16(a, some), vldrhq_z_s16(b, some)), some);
    }
}

TW_RUNS_S16_FORM(tw_mul_s16_mve, tw_mul, p, int16_t, int16_t, mul_run)

#else

TW_EACH_S16_FORM(tw_mul_s16_mve, tw_mul, int16_t, int16_t, tw_mul_element(p, x, y))

#endif
