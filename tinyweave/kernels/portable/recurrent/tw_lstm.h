/* tw_lstm.h - the loops of int8 LSTM kernels. A cell's four gates share each input. The new hidden state is made in the output's
 * row, since all cells read the old one.
 */
#ifndef TW_LSTM_H
#define TW_LSTM_H

#include <string.h>

#include "tw_q15.h"
#include "tw_recurrent.h"

/* tw_dot4, or a faster function with the same results. */
typedef void tw_lstm_dot(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums);

/* The gates of one cell in Q3.12, from their sums of products with the input and with the hidden state. */
static inline void tw_lstm_gates(const tw_lstm *p, const int32_t *sums, const int32_t *again, int32_t *gates)
{
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t first = tw_saturate16(tw_requantize(sums[i], p->in.multiplier[i], p->in.shift[i]));
        gates[i] = tw_saturate16(first + tw_requantize(again[i], p->recurrent.multiplier[i], p->recurrent.shift[i]));
    }
}

/* One cell in one step: its new state in place; returns its hidden value. */
static inline int8_t tw_lstm_step(const tw_lstm *p, const int32_t *gates, int16_t *cell)
{
    const int32_t gate_bits = 3;
    const int32_t input = tw_logistic_q15(gates[0], gate_bits), forget = tw_logistic_q15(gates[1], gate_bits);
    const int32_t candidate = tw_tanh_q15(gates[2], gate_bits), output = tw_logistic_q15(gates[3], gate_bits);
    const int32_t kept = tw_rounding_shift(forget * *cell, 15);
    int32_t state = tw_saturate16(kept + tw_rounding_shift(input * candidate, 15 + p->cell_bits));
    if (p->cell_clip > 0) {
        state = tw_clamp(state, -p->cell_clip, p->cell_clip);
    }
    *cell = (int16_t)state;
    const int32_t scaled = tw_requantize(output * tw_tanh_q15(state, p->cell_bits), p->multiplier, p->shift);
    return (int8_t)tw_clamp(scaled + p->out_zero, -128, 127);
}

/* All cells in one time step: reads the hidden state `past` and writes the new one to `now`. */
TW_INLINE void tw_lstm_cells_by(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now,
                                tw_lstm_dot *dot)
{
    for (int32_t i = 0; i < p->cells; ++i) {
        int32_t sums[4], again[4] = {0, 0, 0, 0}, gates[4];
        memcpy(sums, p->bias + 4 * i, sizeof sums);
        dot(in, p->in_zero, (const int8_t *)p->weights + 4 * i * p->depth, p->depth, p->depth, sums);
        dot(past, p->out_zero, (const int8_t *)p->recurrent_weights + 4 * i * p->cells, p->cells, p->cells, again);
        tw_lstm_gates(p, sums, again, gates);
        now[i] = tw_lstm_step(p, gates, cells + i);
    }
}

/* tw_lstm_cells_by with a function `dot`, or a faster function with the same results. */
typedef void tw_lstm_cells(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now);

TW_INLINE void tw_lstm_over(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out, tw_lstm_cells *step)
{
    for (int32_t b = 0; b < p->batch; ++b) {
        int8_t *past = (int8_t *)hidden + b * p->cells;
        int16_t *cells = (int16_t *)cell + b * p->cells;
        for (int32_t t = 0; t < p->time; ++t) {
            const int32_t row = b * p->batch_step + t * p->time_step;
            int8_t *now = (int8_t *)out + row * p->cells;
            step(p, (const int8_t *)in + row * p->depth, past, cells, now);
            memcpy(past, now, (size_t)p->cells);
        }
    }
}

#endif
