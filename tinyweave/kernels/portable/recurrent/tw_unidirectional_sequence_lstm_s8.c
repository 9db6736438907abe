/* tw_unidirectional_sequence_lstm_s8.c - int8 LSTM, portable C: the specification of every faster variant. */
#include "tw_recurrent.h"

#include "tw_dot.h"
#include "tw_lstm.h"

void tw_unidirectional_sequence_lstm_s8(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out)
{
    tw_lstm_over(p, in, hidden, cell, out, tw_dot4);
}
