/* tw_multiply_s16_mve.h - int16 inputs times int8 weights with the Arm MVE extension: a window times one to four filters. */
#ifndef TW_MULTIPLY_S16_MVE_H
#define TW_MULTIPLY_S16_MVE_H

#include "tw_multiply_s16.h"
#include "tw_mve.h"

/* Adds the products of a run with four filters, modulo 2^32. Eight inputs per round; WLSTP.16 and LETP predicate the tail.
 * Registers: [x]; [w_0] .. [w_3]; [s_0] .. [s_3]: sums, in even registers, which VMLADAVA needs; [w_0] .. [w_3] are in r0 .. r7,
 * which widening loads need; lr: inputs left; q0: inputs; q1,
 * q2: weights, widened, alternately. No stack. */
static inline void tw_multiply_run_s16_mve(const int16_t *x, const int8_t *w_0, int32_t second, int32_t third, int32_t fourth,
                                           int32_t count, tw_sums_s16 *sums)
{
    const int8_t *w_1 = w_0 + second, *w_2 = w_0 + third, *w_3 = w_0 + fourth;
#if TW_HAS_MVE
    __asm__(
        "wlstp.16 lr, %[count], 2f\n"
        "1:\n"
        "vldrh.16 q0, [%[x]], #16\n"
        "vldrb.s16 q1, [%[w_0]], #8\n"
        "vmladava.s16 %[s_0], q0, q1\n"
        "vldrb.s16 q2, [%[w_1]], #8\n"
        "vmladava.s16 %[s_1], q0, q2\n"
        "vldrb.s16 q1, [%[w_2]], #8\n"
        "vmladava.s16 %[s_2], q0, q1\n"
        "vldrb.s16 q2, [%[w_3]], #8\n"
        "vmladava.s16 %[s_3], q0, q2\n"
        "letp lr, 1b\n"
        "2:\n"
        : [x] "+r"(x), [w_0] "+l"(w_0), [w_1] "+l"(w_1), [w_2] "+l"(w_2), [w_3] "+l"(w_3),
          [s_0] "+Te"(sums->of[0]), [s_1] "+Te"(sums->of[1]), [s_2] "+Te"(sums->of[2]), [s_3] "+Te"(sums->of[3])
        : [count] "r"(count) : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "memory");
#else
    const int8_t *const weights[TW_FILTERS_S16] = {w_0, w_1, w_2, w_3};
    for (int32_t i = 0; i < TW_FILTERS_S16; ++i) {
        for (int32_t k = 0; k < count; ++k) {
            sums->of[i] += x[k] * weights[i][k];
        }
    }
#endif
}

/* A tw_multiply_s16; with fewer than four filters the last one is repeated. */
TW_INLINE tw_sums_s16 tw_multiply_s16_mve(const tw_runs_s16 *runs, int32_t filters)
{
    const int32_t second = filters > 1 ? runs->filter : 0, third = filters > 2 ? second + runs->filter : second;
    const int32_t fourth = filters > 3 ? third + runs->filter : third;
    const int16_t *row = runs->x;
    const int8_t *w_row = runs->weights;
    tw_sums_s16 sums = {{0, 0, 0, 0}};
    for (int32_t rows = runs->rows; rows > 0; --rows) {
        const int16_t *x = row;
        const int8_t *w = w_row;
        for (int32_t left = runs->runs; left > 0; --left) {
            tw_multiply_run_s16_mve(x, w, second, third, fourth, runs->count, &sums);
            x += runs->x_run;
            w += runs->count;
        }
        row += runs->x_row;
        w_row += runs->w_row;
    }
    return sums;
}

#endif
