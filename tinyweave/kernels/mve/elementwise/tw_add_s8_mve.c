/* tw_add_s8_mve.c - int8 add or sub of maps of one shape with the Arm MVE extension, four elements at a time.
 *
 * Cost: 18 instructions per four elements. */
#include "tw_add_s8_mve.h"

#include "tw_mve.h"

/* TFLite shifts both operands left by 20 before it rescales them. */
#define HALVED_SHIFT 19
#define SCALED_SHIFT 20

/* The output of one element. */
static inline int8_t add_one(const tw_add_mve *p, int32_t plain, int32_t scaled)
{
    const int32_t half = tw_shift_left(plain - p->plain_zero, HALVED_SHIFT);
    const int32_t other = tw_requantize(tw_shift_left(scaled - p->scaled_zero, SCALED_SHIFT), p->multiplier, p->shift);
    const int32_t sum = tw_requantize(half + other, p->out_multiplier, p->out_shift);
    return (int8_t)tw_clamp(sum + p->out_zero, p->out_min, p->out_max);
}

#if TW_HAS_MVE

/* Computes whole fours of elements; returns how many elements. */
TW_NOT_INLINE int32_t add_fours(const tw_add_mve *params, const int8_t *plain, const int8_t *scaled, int8_t *to, int32_t count)
{
    const tw_add_mve p = *params; /* a copy, since stores through `to` might change the original */
    const int32x4_t low = vdupq_n_s32(p.out_min), high = vdupq_n_s32(p.out_max);
    const int32x4_t shift = vdupq_n_s32(p.shift), out_shift = vdupq_n_s32(p.out_shift); /* core registers are scarce */
    const int32_t fours = count / 4, sign = p.shift < 0; /* 1 to round negative halves of `scaled` away from zero */
    for (int32_t i = fours; i > 0; --i) {
        const int32x4_t half = vshlq_n_s32(vsubq_n_s32(vldrbq_s32(plain), p.plain_zero), HALVED_SHIFT);
        int32x4_t other = vshlq_n_s32(vsubq_n_s32(vldrbq_s32(scaled), p.scaled_zero), SCALED_SHIFT);
        other = tw_mve_away(vqrdmulhq_n_s32(other, p.multiplier), sign);
        int32x4_t sum = vaddq_s32(half, vrshlq_s32(other, shift));
        sum = tw_mve_away(vqrdmulhq_n_s32(sum, p.out_multiplier), 1);
        sum = vaddq_n_s32(vrshlq_s32(sum, out_shift), p.out_zero);
        vstrbq_s32(to, vminq_s32(vmaxq_s32(sum, low), high));
        plain += 4;
        scaled += 4;
        to += 4;
    }
    return 4 * fours;
}

#endif

/* Computes `count` neighbouring elements. */
static void add_run(const tw_add_mve *p, const int8_t *plain, const int8_t *scaled, int8_t *to, int32_t count)
{
    int32_t done = 0;
#if TW_HAS_MVE
    done = add_fours(p, plain, scaled, to, count);
#endif
    for (; done < count; ++done) {
        to[done] = add_one(p, plain[done], scaled[done]);
    }
}

TW_ALIKE_FORMS(tw_add_s8_mve, tw_add_mve, add_run(p, from_a, from_b, to, count))
