/* tw_stateless_lstm_s8_mve.c - int8 LSTM over a sequence with the Arm MVE extension: the products of tw_dot_mve.c. */
#include "tw_recurrent_mve.h"

#include "tw_dot_mve.h"
#include "tw_sequence.h"

void tw_stateless_lstm_s8_mve(const tw_sequence *p, const void *in, const void *state, const void *first_cell, void *out,
                              void *cell, void *scratch)
{
    tw_stateless_lstm_over(p, in, state, first_cell, out, cell, scratch, tw_dot_s8_mve);
}
