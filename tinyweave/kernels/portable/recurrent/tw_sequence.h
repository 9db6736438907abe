/* tw_sequence.h - the loops of int8 kernels of recurrent layers that start from an initial state. Four cells of a gate share each
 * input; less than four that are left are computed individually.
 */
#ifndef TW_SEQUENCE_H
#define TW_SEQUENCE_H

#include <string.h>

#include "tw_recurrent.h"
#include "tw_tanh.h"

/* x * multiplier / 2^32, rounded half up. */
static inline int32_t tw_scaled(int32_t x, int32_t multiplier)
{
    return (int32_t)(((int64_t)x * multiplier + ((int64_t)1 << 31)) >> 32);
}

/* x / 2^exponent, rounded half up. */
static inline int32_t tw_halved(int32_t x, int32_t exponent) { return (x + (1 << (exponent - 1))) >> exponent; }

/* The weights of a cell in one gate, of `columns` weights per cell. */
static inline const int8_t *tw_gate_weights(const tw_sequence *p, const void *weights, int32_t gate, int32_t cell, int32_t columns)
{
    return (const int8_t *)weights + gate * ((p->cells * columns + 3) & ~3) + cell * columns;
}

/* The two products in the sums of one gate of `count` cells from `cell` on: of the input, and of the hidden state, each below
 * 2^30. */
TW_INLINE void tw_gate_products(const tw_sequence *p, int32_t gate, int32_t cell, int32_t count, const int8_t *in,
                                const int8_t *hidden, int32_t *from_in, int32_t *again, tw_products *dot)
{
    const int32_t first = gate * p->cells + cell;
    for (int32_t i = 0; i < count; ++i) {
        from_in[i] = p->bias[first + i];
        again[i] = p->recurrent_bias ? p->recurrent_bias[first + i] : 0;
    }
    dot(in, 0, p->in_zero, tw_gate_weights(p, p->weights, gate, cell, p->depth), p->depth, 0, p->depth, count, from_in);
    dot(hidden, 0, p->out_zero, tw_gate_weights(p, p->recurrent_weights, gate, cell, p->cells), p->cells, 0, p->cells, count, again);
    for (int32_t i = 0; i < count; ++i) {
        from_in[i] = tw_scaled(tw_shift_left(from_in[i], p->in_left), p->in_multiplier[first + i]);
        again[i] = tw_scaled(tw_shift_left(again[i], p->recurrent_left), p->recurrent_multiplier[first + i]);
    }
}

/* How many cells are computed at a time from `cell` on. */
static inline int32_t tw_cells_at_once(const tw_sequence *p, int32_t cell) { return p->cells - cell < 4 ? 1 : 4; }

/* The row of time step `step` in the order of computation. */
static inline int32_t tw_time_of(const tw_sequence *p, int32_t step) { return p->reverse ? p->time - 1 - step : step; }

/* Copies the initial hidden state. */
static inline void tw_initial(const tw_sequence *p, const void *state, int8_t *hidden)
{
    if (state) {
        memcpy(hidden, state, (size_t)p->cells);
    } else {
        memset(hidden, p->out_zero, (size_t)p->cells);
    }
}

/* A value in 1/128 of the output's step as a state, limited to what int8 can hold. */
static inline int32_t tw_state(const tw_sequence *p, int32_t value)
{
    return tw_clamp(value, (-128 - p->out_zero) * 128, (127 - p->out_zero) * 128);
}

/* An activation in Q0.15 in units of the state, below 2^30. */
static inline int32_t tw_unlimited_state(const tw_sequence *p, int32_t activation)
{
    return tw_scaled(tw_shift_left(activation, 16), p->multiplier);
}

/* An activation in Q0.15 as a state. */
static inline int32_t tw_scaled_state(const tw_sequence *p, int32_t activation)
{
    return tw_state(p, tw_unlimited_state(p, activation));
}

/* tanh of a sum in Q12, as a state. */
static inline int32_t tw_activated(const tw_sequence *p, int32_t sum) { return tw_scaled_state(p, tw_tanh_q12(sum)); }

/* The int8 hidden state of a state. */
static inline int8_t tw_narrowed(const tw_sequence *p, int32_t state) { return (int8_t)(tw_halved(state, 7) + p->out_zero); }

/* reset gate * state of all cells, which the recurrent weights of the new gate multiply. */
TW_INLINE void tw_gru_reset(const tw_sequence *p, const int8_t *in, const int8_t *hidden, const int16_t *state, int8_t *product,
                            tw_products *dot)
{
    for (int32_t cell = 0, count; cell < p->cells; cell += count) {
        int32_t from_in[4], again[4];
        count = tw_cells_at_once(p, cell);
        tw_gate_products(p, 0, cell, count, in, hidden, from_in, again, dot);
        for (int32_t i = 0; i < count; ++i) {
            const int32_t reset = tw_logistic_q12(from_in[i] + again[i]);
            product[cell + i] = tw_narrowed(p, tw_halved(reset * state[cell + i], 15));
        }
    }
}

TW_INLINE void tw_gru_over(const tw_sequence *p, const void *in, const void *first, void *out, void *scratch,
                           tw_products *dot)
{
    const int32_t cells = p->cells, most = 65535; /* times a gate below 2^31 */
    int16_t *const state = (int16_t *)scratch;
    int8_t *const hidden = (int8_t *)(state + cells), *const product = hidden + cells;
    tw_initial(p, first, hidden);
    for (int32_t i = 0; i < cells; ++i) {
        state[i] = (int16_t)((hidden[i] - p->out_zero) * 128);
    }
    for (int32_t step = 0; step < p->time; ++step) {
        const int32_t t = tw_time_of(p, step);
        const int8_t *const x = (const int8_t *)in + t * p->depth;
        int8_t *const now = (int8_t *)out + (p->last ? 0 : t) * cells;
        if (!p->variant) {
            tw_gru_reset(p, x, hidden, state, product, dot);
        }
        for (int32_t cell = 0, count; cell < cells; cell += count) {
            int32_t from_in[3][4], again[3][4];
            count = tw_cells_at_once(p, cell);
            for (int32_t gate = p->variant ? 0 : 1; gate < 3; ++gate) {
                const int8_t *const past = gate == 2 && !p->variant ? product : hidden;
                tw_gate_products(p, gate, cell, count, x, past, from_in[gate], again[gate], dot);
            }
            for (int32_t i = 0; i < count; ++i) {
                int32_t candidate = again[2][i];
                if (p->variant) {
                    const int32_t reset = tw_logistic_q12(from_in[0][i] + again[0][i]);
                    candidate = tw_halved(reset * tw_clamp(candidate, -most, most), 15);
                }
                const int32_t fresh = tw_unlimited_state(p, tw_tanh_q12(from_in[2][i] + candidate));
                const int64_t update = tw_logistic_q12(from_in[1][i] + again[1][i]);
                const int32_t kept = (int32_t)((update * (state[cell + i] - fresh) + (1 << 14)) >> 15);
                state[cell + i] = (int16_t)tw_state(p, fresh + kept);
                now[cell + i] = tw_narrowed(p, state[cell + i]);
            }
        }
        memcpy(hidden, now, (size_t)cells);
    }
}

TW_INLINE void tw_simple_rnn_over(const tw_sequence *p, const void *in, const void *first, void *out, void *scratch,
                           tw_products *dot)
{
    int8_t *const hidden = (int8_t *)scratch;
    tw_initial(p, first, hidden);
    for (int32_t step = 0; step < p->time; ++step) {
        const int32_t t = tw_time_of(p, step);
        int8_t *const now = (int8_t *)out + (p->last ? 0 : t) * p->cells;
        for (int32_t cell = 0, count; cell < p->cells; cell += count) {
            int32_t from_in[4], again[4];
            count = tw_cells_at_once(p, cell);
            tw_gate_products(p, 0, cell, count, (const int8_t *)in + t * p->depth, hidden, from_in, again, dot);
            for (int32_t i = 0; i < count; ++i) {
                const int32_t sum = from_in[i] + again[i];
                const int32_t state = p->variant ? tw_state(p, sum < 0 ? 0 : sum) : tw_activated(p, sum);
                now[cell + i] = tw_narrowed(p, state);
            }
        }
        memcpy(hidden, now, (size_t)p->cells);
    }
}

/* One cell in one step: its new cell state in place; returns its hidden state. */
static inline int8_t tw_lstm_cell(const tw_sequence *p, int32_t enter, int32_t forget, int32_t candidate, int32_t leave,
                                  int16_t *cell)
{
    const int32_t bits = p->variant;
    const int32_t kept = tw_halved(tw_logistic_q12(forget) * *cell, 15);
    const int32_t added = tw_halved(tw_logistic_q12(enter) * tw_tanh_q12(candidate), 15 + bits);
    *cell = (int16_t)tw_clamp(kept + added, -32768, 32767);
    const int32_t squashed = tw_tanh_q12(tw_shift_left(*cell, bits) >> 3);
    return tw_narrowed(p, tw_scaled_state(p, tw_halved(tw_logistic_q12(leave) * squashed, 15)));
}

TW_INLINE void tw_stateless_lstm_over(const tw_sequence *p, const void *in, const void *first, const void *first_cell, void *out,
                                      void *cell_state, void *scratch, tw_products *dot)
{
    const int32_t cells = p->cells;
    int8_t *const hidden = (int8_t *)scratch;
    int16_t *const cell = (int16_t *)cell_state;
    tw_initial(p, first, hidden);
    if (first_cell) {
        memmove(cell, first_cell, (size_t)cells * sizeof *cell);
    } else {
        memset(cell, 0, (size_t)cells * sizeof *cell);
    }
    for (int32_t step = 0; step < p->time; ++step) {
        const int32_t t = tw_time_of(p, step);
        int8_t *const now = (int8_t *)out + (p->last ? 0 : t) * cells;
        for (int32_t i = 0, count; i < cells; i += count) {
            int32_t from_in[4][4], again[4][4];
            count = tw_cells_at_once(p, i);
            for (int32_t gate = 0; gate < 4; ++gate) {
                tw_gate_products(p, gate, i, count, (const int8_t *)in + t * p->depth, hidden, from_in[gate], again[gate],
                                 dot);
            }
            for (int32_t k = 0; k < count; ++k) {
                now[i + k] = tw_lstm_cell(p, from_in[0][k] + again[0][k], from_in[1][k] + again[1][k],
                                          from_in[2][k] + again[2][k], from_in[3][k] + again[3][k], cell + i + k);
            }
        }
        memcpy(hidden, now, (size_t)cells);
    }
}

#endif
