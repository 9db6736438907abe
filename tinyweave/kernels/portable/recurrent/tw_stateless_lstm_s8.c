/* tw_stateless_lstm_s8.c - int8 LSTM over a sequence, portable C: the specification of every faster variant. */
#include "tw_recurrent.h"

#include "tw_dot.h"
#include "tw_sequence.h"

void tw_stateless_lstm_s8(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                          void *cell, void *scratch)
{
    tw_stateless_lstm_over(p, in, state, first_cell, out, cell, scratch, tw_dot_s8);
}
