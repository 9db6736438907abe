/* tw_mve_dots.h - one run of bytes times four others with the Arm MVE extension. */
#ifndef TW_MVE_DOTS_H
#define TW_MVE_DOTS_H

#include "tw_mve.h"

/* Defines a function that adds to sums[i] the products of `count` bytes at `one` with the bytes at four[i], modulo 2^32. one_step,
 * four_step: bytes from sixteen of them to the next sixteen, as literals.
 * Registers: [one]; [four_0] .. [four_3]; [sum_0] .. [sum_3]: sums, in even registers, which VMLADAVA needs; lr: bytes left; q0:
 * bytes of `one`; q1, q2: bytes of the others, alternately. No stack.
 * Order: one load of `one` per four products; each product has the load of the next one's bytes after it. WLSTP.8 and LETP
 * predicate the tail, so no byte beyond the last is read. */
#if TW_HAS_MVE
#define TW_MVE_DOTS(name, one_step, four_step)                                                                        \
    static inline void name(const int8_t *one, const int8_t *const *four, int32_t count, int32_t *sums)               \
    {                                                                                                                 \
        const int8_t *four_0 = four[0], *four_1 = four[1], *four_2 = four[2], *four_3 = four[3];                      \
        int32_t sum_0 = sums[0], sum_1 = sums[1], sum_2 = sums[2], sum_3 = sums[3]; /* for even registers */          \
        __asm__(                                                                                                      \
            "wlstp.8 lr, %[count], 2f\n"                                                                              \
            "1:\n"                                                                                                    \
            "vldrb.8 q0, [%[one]], #" #one_step "\n"                                                                  \
            "vldrb.8 q1, [%[four_0]], #" #four_step "\n"                                                              \
            "vmladava.s8 %[sum_0], q0, q1\n"                                                                          \
            "vldrb.8 q2, [%[four_1]], #" #four_step "\n"                                                              \
            "vmladava.s8 %[sum_1], q0, q2\n"                                                                          \
            "vldrb.8 q1, [%[four_2]], #" #four_step "\n"                                                              \
            "vmladava.s8 %[sum_2], q0, q1\n"                                                                          \
            "vldrb.8 q2, [%[four_3]], #" #four_step "\n"                                                              \
            "vmladava.s8 %[sum_3], q0, q2\n"                                                                          \
            "letp lr, 1b\n"                                                                                           \
            "2:\n"                                                                                                    \
            : [one] "+r"(one), [four_0] "+r"(four_0), [four_1] "+r"(four_1), [four_2] "+r"(four_2),                   \
              [four_3] "+r"(four_3), [sum_0] "+Te"(sum_0), [sum_1] "+Te"(sum_1), [sum_2] "+Te"(sum_2),                \
              [sum_3] "+Te"(sum_3)                                                                                    \
            : [count] "r"(count) : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "memory");                               \
        sums[0] = sum_0;                                                                                              \
        sums[1] = sum_1;                                                                                              \
        sums[2] = sum_2;                                                                                              \
        sums[3] = sum_3;                                                                                              \
    }
#else
#define TW_MVE_DOTS(name, one_step, four_step)                                                          \
    static inline void name(const int8_t *one, const int8_t *const *four, int32_t count, int32_t *sums) \
    {                                                                                                   \
        for (int32_t k = 0; k < count; ++k) {                                                           \
            const int32_t vector = k / TW_MVE_LANES, lane = k % TW_MVE_LANES;                           \
            for (int i = 0; i < 4; ++i) {                                                               \
                const int32_t product = one[vector * one_step + lane] * four[i][vector * four_step + lane]; \
                sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)product);                             \
            }                                                                                           \
        }                                                                                               \
    }
#endif

#endif
