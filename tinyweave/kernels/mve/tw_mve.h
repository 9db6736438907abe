/* tw_mve.h - functions that the kernels with the Arm MVE extension (Helium: Cortex-M55, M85) share. Each has a version in plain
 * C with the same results, which TW_PLAIN_C selects on cores without MVE.
 *
 * VQRDMULH rounds as tw_high_mul. VRSHL rounds half up; if negative halves must round away from zero, 1 is subtracted from
 * negative numbers before it, as in tw_rounding_shift.
 */
#ifndef TW_MVE_H
#define TW_MVE_H

#include "tw_copy.h"

#if !TW_HAS_MVE && !defined(TW_PLAIN_C)
#error "no Arm MVE instructions: compile for a core with them, as with -mcpu=cortex-m55, or define TW_PLAIN_C (in Zephyr CONFIG_TINYWEAVE_..._PLAIN_C=y) to run slowly"
#endif

/* For the clobbers of assembly that writes the predicate of vectors. Clang has no name for this register, so "cc" takes its place:
 * such assembly must be in functions without other predicates, which are not inlined. */
#if defined(__clang__)
#define TW_MVE_PREDICATE "cc"
#else
#define TW_MVE_PREDICATE "p0"
#endif

#define TW_MVE_LANES 16  /* bytes of a vector */

/* Rounds a count of bytes up to whole vectors. */
static inline int32_t tw_mve_up(int32_t count) { return (count + TW_MVE_LANES - 1) & -TW_MVE_LANES; }

/* For plain C: sum * multiplier / 2^31 * 2^shift, rounded twice as tw_requantize does; shift: -31 .. -1, or 0 if the multiplier
 * or `sign` is 0. sign: -1 to round negative halves away from zero; 0 if the clamp removes all negative outputs. */
static inline int32_t tw_mve_rescale(int32_t sum, int32_t multiplier, int32_t shift, int32_t sign)
{
    const int32_t high = tw_high_mul(sum, multiplier), before = high + ((high >> 31) & sign);
    return shift < 0 ? ((before >> (-shift - 1)) + 1) >> 1 : before;
}

#if TW_HAS_MVE

/* Subtracts `sign`, 0 or 1, from negative lanes: x + (x >> 31) * sign. VQDMLAH adds the high half of 2 * x * sign to x, and rounds
 * that down. */
static inline int32x4_t tw_mve_away(int32x4_t x, int32_t sign) { return vqdmlahq_n_s32(x, x, sign); }

/* tw_requantize of each lane. */
static inline int32x4_t tw_mve_requantize(int32x4_t x, int32_t multiplier, int32_t shift)
{
    const int32x4_t high = vqrdmulhq_n_s32(vshlq_r_s32(x, tw_max(shift, 0)), multiplier);
    return vrshlq_n_s32(tw_mve_away(high, shift < 0), tw_min(shift, 0));
}

/* The same for shifts of at most 0. */
static inline int32x4_t tw_mve_requantize_right(int32x4_t x, int32_t multiplier, int32_t shift)
{
    return vrshlq_n_s32(tw_mve_away(vqrdmulhq_n_s32(x, multiplier), shift < 0), shift);
}

/* tw_mve_requantize with a multiplier and a shift per lane; left, right: max(shift, 0), min(shift, 0). */
static inline int32x4_t tw_mve_requantize_lanes(int32x4_t x, int32x4_t multiplier, int32x4_t left, int32x4_t right)
{
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(x, left), multiplier);
    return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(vandq_s32(high, right), 31)), right);
}

/* The vector of four words. One VMOV sets two lanes, for which there is no intrinsic. */
static inline int32x4_t tw_mve_lanes(int32_t lane_0, int32_t lane_1, int32_t lane_2, int32_t lane_3)
{
    int32x4_t lanes;
    __asm__(
        "vmov %q0[2], %q0[0], %1, %3\n"
        "vmov %q0[3], %q0[1], %2, %4\n"
        : "=w"(lanes) : "r"(lane_0), "r"(lane_1), "r"(lane_2), "r"(lane_3));
    return lanes;
}

#endif

/* sum + `count` neighbouring bytes. WLSTP.8 and LETP predicate the tail, so no byte beyond the last is read. lr: bytes left; q0:
 * bytes; `sum` is in an even register, which VADDVA needs. */
static inline int32_t tw_mve_add_run(int32_t sum, const int8_t *from, int32_t count)
{
#if TW_HAS_MVE
    __asm__(
        "wlstp.8 lr, %2, 2f\n"
        "1:\n"
        "vldrb.8 q0, [%1], #16\n"
        "vaddva.s8 %0, q0\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+Te"(sum), "+r"(from) : "r"(count) : "lr", "d0", "d1", "memory");
#else
    for (int32_t i = 0; i < count; ++i) {
        sum += from[i];
    }
#endif
    return sum;
}

/* Fills exactly `count` words with a value, with a predicated tail as in tw_copy. */
static inline void tw_mve_fill_words(int32_t *to, int32_t value, int32_t count)
{
#if TW_HAS_MVE
    __asm__ volatile(
        "vdup.32 q0, %1\n"
        "wlstp.32 lr, %2, 2f\n"
        "1:\n"
        "vstrw.32 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+r"(to) : "r"(value), "r"(count) : "lr", "d0", "d1", "cc", "memory");
#else
    for (int32_t i = 0; i < count; ++i) {
        to[i] = value;
    }
#endif
}

#endif
