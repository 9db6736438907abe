/* tw_unidirectional_sequence_lstm_s8_dsp.c - int8 LSTM with the Arm DSP extension: the gates' products of tw_dot_dsp.c. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_dsp.h"
#include "tw_lstm.h"

#define GATES 4 /* of a cell */
#define CELLS 4 /* whose products are computed by one call, and wait on the stack */

/* Replaces the sums of one gate of some cells, up to `end`, by the gate in Q3.12; again: the sums of the hidden state. */
TW_NOT_INLINE void rescale_left(const tw_lstm *p, int32_t gate, int32_t *sums, const int32_t *end, const int32_t *again)
{
    for (; sums != end; sums += GATES, again += GATES) {
        const int32_t first = tw_ssat16(tw_requantize(*sums, p->in.multiplier[gate], p->in.shift[gate]));
        *sums = tw_ssat16(first + tw_requantize(*again, p->recurrent.multiplier[gate], p->recurrent.shift[gate]));
    }
}

/* Replaces the sums as rescale_left does, but faster if both shifts go right. */
TW_NOT_INLINE void rescale(const tw_lstm *p, int32_t gate, int32_t *sums, const int32_t *end, const int32_t *again)
{
    const int32_t twice = tw_shift_left(p->in.multiplier[gate], 1), right = -1 - p->in.shift[gate];
    const int32_t again_twice = tw_shift_left(p->recurrent.multiplier[gate], 1), again_right = -1 - p->recurrent.shift[gate];
    if (right < 0 || again_right < 0) {
        rescale_left(p, gate, sums, end, again);
        return;
    }
    for (; sums != end; sums += GATES, again += GATES) {
        const int32_t first = tw_ssat16(tw_requantize_right(*sums, twice, right));
        *sums = tw_ssat16(first + tw_requantize_right(*again, again_twice, again_right));
    }
}

/* A tw_lstm_cells. */
static inline void cells_of(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now)
{
    const int8_t *weights = (const int8_t *)p->weights, *recurrent = (const int8_t *)p->recurrent_weights;
    for (int32_t first = 0; first < p->cells; first += CELLS) {
        const int32_t count = tw_min(CELLS, p->cells - first);
        int32_t sums[GATES * CELLS], again[GATES * CELLS];
        for (int32_t i = 0; i < GATES * count; i += GATES) {
            memcpy(sums + i, p->bias + GATES * first + i, GATES * sizeof *sums);
            memset(again + i, 0, GATES * sizeof *again);
        }
        tw_dot4_dsp(in, p->in_zero, weights + GATES * first * p->depth, p->depth, count, sums);
        tw_dot4_dsp(past, p->out_zero, recurrent + GATES * first * p->cells, p->cells, count, again);
        for (int32_t gate = 0; gate < GATES; ++gate) {
            rescale(p, gate, sums + gate, sums + gate + GATES * count, again + gate);
        }
        for (int32_t i = 0; i < count; ++i) {
            now[first + i] = tw_lstm_step(p, sums + GATES * i, cells + first + i);
        }
    }
}

void tw_unidirectional_sequence_lstm_s8_dsp(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out)
{
    tw_lstm_over(p, in, hidden, cell, out, cells_of);
}
