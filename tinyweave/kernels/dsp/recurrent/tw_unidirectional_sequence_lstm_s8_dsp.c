/* tw_unidirectional_sequence_lstm_s8_dsp.c - int8 LSTM with the Arm DSP extension: the gates' products of tw_dot_dsp.c. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_lstm.h"

void tw_unidirectional_sequence_lstm_s8_dsp(const tw_lstm *p, const void *in, void *hidden, void *cell, void *out)
{
    tw_lstm_over(p, in, hidden, cell, out, tw_dot4_dsp);
}
