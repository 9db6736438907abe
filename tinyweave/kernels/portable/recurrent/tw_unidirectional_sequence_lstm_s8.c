/* tw_unidirectional_sequence_lstm_s8.c - int8 LSTM, portable C: the specification of every faster variant. */
#include "tw_recurrent.h"

#include "tw_dot.h"
#include "tw_lstm.h"

static inline void cells_of(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now)
{
    tw_lstm_cells_by(p, in, past, cells, now, tw_dot4);
}

void tw_unidirectional_sequence_lstm_s8(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out)
{
    tw_lstm_over(p, in, hidden, cell, out, cells_of);
}
