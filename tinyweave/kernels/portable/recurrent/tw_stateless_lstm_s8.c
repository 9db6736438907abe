/* tw_stateless_lstm_s8.c - int8 LSTM over a sequence, portable C: the specification of every faster variant. */
#include "tw_recurrent.h"

#include "tw_dot.h"
#include "tw_sequence.h"

static inline void dot(const int8_t *x, int32_t zero, const int8_t *weights, int32_t depth, int32_t count, int32_t *sums)
{
    tw_dot_s8(x, 0, zero, weights, depth, 0, depth, count, sums);
}

void tw_stateless_lstm_s8(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                          void *cell, void *scratch)
{
    tw_stateless_lstm_over(p, in, state, first_cell, out, cell, scratch, dot);
}
