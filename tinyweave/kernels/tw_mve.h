/* tw_mve.h - what kernels with the Arm MVE extension, Helium (Cortex-M55, M85), share. Each has its plain C beside it, for the
 * host and for compilers that lack it, which gives the same bytes.
 *
 * VQRDMULH rounds as tw_high_mul does. VRSHL rounds half up; where a negative half must go away from zero, 1 is taken off
 * what is negative before it, as tw_rounding_shift does.
 */
#ifndef TW_MVE_H
#define TW_MVE_H

#include "tw.h"

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
#define TW_HAS_MVE 1
#include <arm_mve.h>
#else
#define TW_HAS_MVE 0
#endif

#define TW_MVE_LANES 16  /* bytes of a vector */

/* To whole vectors. */
static inline int32_t tw_mve_up(int32_t count) { return (count + TW_MVE_LANES - 1) & -TW_MVE_LANES; }

#if !TW_HAS_MVE

/* A sum times its multiplier and 2^shift, rounded twice as tw_requantize does; shift: -31 .. -1, or 0 where the multiplier is
 * 0. sign: -1, or 0 where a negative half need not go away from zero. */
static inline int32_t tw_mve_rescale(int32_t sum, int32_t multiplier, int32_t shift, int32_t sign)
{
    const int32_t high = tw_high_mul(sum, multiplier), before = high + ((high >> 31) & sign);
    return shift < 0 ? ((before >> (-shift - 1)) + 1) >> 1 : before;
}

#endif

/* Copies `count` bytes, and touches no others. */
static inline void tw_mve_copy(int8_t *to, const int8_t *from, int32_t count)
{
#if TW_HAS_MVE
    __asm__ volatile(
        "wlstp.8 lr, %2, 2f\n"
        "1:\n"
        "vldrb.8 q0, [%1], #16\n"
        "vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+r"(to), "+r"(from) : "r"(count) : "lr", "d0", "d1", "cc", "memory");
#else
    for (int32_t i = 0; i < count; ++i) {
        to[i] = from[i];
    }
#endif
}

/* Writes `count` bytes of this value. */
static inline void tw_mve_fill(int8_t *to, int32_t value, int32_t count)
{
#if TW_HAS_MVE
    __asm__ volatile(
        "vdup.8 q0, %1\n"
        "wlstp.8 lr, %2, 2f\n"
        "1:\n"
        "vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+r"(to) : "r"(value), "r"(count) : "lr", "d0", "d1", "cc", "memory");
#else
    for (int32_t i = 0; i < count; ++i) {
        to[i] = (int8_t)value;
    }
#endif
}

#endif
