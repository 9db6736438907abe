/* tw_stateless_lstm_s8_dsp.c - int8 LSTM over a sequence with the Arm DSP extension: the products of tw_dot_dsp.c. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_sequence.h"

static inline void dot(const int8_t *x, int32_t zero, const int8_t *weights, int32_t depth, int32_t count, int32_t *sums)
{
    if (count == 4) {
        tw_dot4_dsp(x, zero, weights, depth, depth, sums);
    } else {
        tw_dot1_dsp(x, zero, weights, depth, sums);
    }
}

void tw_stateless_lstm_s8_dsp(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                              void *cell, void *scratch)
{
    tw_stateless_lstm_over(p, in, state, first_cell, out, cell, scratch, dot);
}
