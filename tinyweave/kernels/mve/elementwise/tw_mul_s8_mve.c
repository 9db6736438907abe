/* tw_mul_s8_mve.c - int8 mul with broadcasting with the Arm MVE extension, eight elements at a time.
 *
 * Loads widen the elements to 16 bits. VMULLB and VMULLT multiply the even and the odd lanes to products of 32 bits, and VQMOVNB
 * and VQMOVNT write these back in order as 16 bits. All vectors stay in registers: the elements, the products, and the clamp. An
 * operand that repeats along the channels is copied eight times first. Cost: 22 instructions per eight elements. */
#include "tw_binary_mve.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* Rescales products. sign: 1 to round negative halves away from zero, else 0. */
static inline int32x4_t rescaled(const tw_mul *p, int32x4_t product, int32_t sign)
{
    return vrshlq_n_s32(tw_mve_away(vqrdmulhq_n_s32(product, p->multiplier), sign), p->shift);
}

/* The outputs of eight elements. */
static inline int16x8_t eight(const tw_mul *p, int16x8_t a, int16x8_t b, int32_t sign)
{
    a = vsubq_n_s16(a, (int16_t)p->a_zero);
    b = vsubq_n_s16(b, (int16_t)p->b_zero);
    const int32x4_t even = rescaled(p, vmullbq_int_s16(a, b), sign), odd = rescaled(p, vmulltq_int_s16(a, b), sign);
    const int16x8_t scaled = vqmovntq_s32(vqmovnbq_s32(a, even), odd); /* all lanes of a are replaced */
    const int16x8_t low = vdupq_n_s16((int16_t)p->out_min), high = vdupq_n_s16((int16_t)p->out_max);
    return vminq_s16(vmaxq_s16(vqaddq_n_s16(scaled, (int16_t)p->out_zero), low), high);
}

/* Multiplies `count` elements; an operand advances by its step, 0 or 1, per element. */
TW_NOT_INLINE void mul_run(const tw_mul *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                           int32_t count)
{
    const tw_mul p = *params; /* a copy, since stores through `to` might change the original */
    const int32_t sign = p.shift < 0;
    int8_t repeated[8]; /* of the operand with step 0; at most one has it */
    if (!(a_step & b_step)) {
        memset(repeated, a_step ? *b : *a, sizeof repeated);
        a = a_step ? a : repeated;
        b = b_step ? b : repeated;
    }
    for (int32_t i = count >> 3; i > 0; --i) {
        vstrbq_s16(to, eight(&p, vldrbq_s16(a), vldrbq_s16(b), sign));
        a += 8 * a_step;
        b += 8 * b_step;
        to += 8;
    }
    if (count & 7) {
        const mve_pred16_t some = vctp16q((uint32_t)count & 7);
        vstrbq_p_s16(to, eight(&p, vldrbq_z_s16(a, some), vldrbq_z_s16(b, some), sign), some);
    }
}

TW_BINARY_FORMS(tw_mul_s8_mve, tw_mul, mul_run)

#else

TW_EACH_S8_FORM(tw_mul_s8_mve, tw_mul, tw_mul_element(p, x, y))

#endif
