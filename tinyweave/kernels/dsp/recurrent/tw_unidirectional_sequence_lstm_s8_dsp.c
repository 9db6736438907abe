/* tw_unidirectional_sequence_lstm_s8_dsp.c - int8 LSTM with the Arm DSP extension: the gates' products of tw_dot_dsp.c. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_lstm.h"

static inline void cells_of(const tw_lstm *p, const int8_t *in, const int8_t *past, int16_t *cells, int8_t *now)
{
    tw_lstm_cells_by(p, in, past, cells, now, tw_dot4_dsp);
}

void tw_unidirectional_sequence_lstm_s8_dsp(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out)
{
    tw_lstm_over(p, in, hidden, cell, out, cells_of);
}
