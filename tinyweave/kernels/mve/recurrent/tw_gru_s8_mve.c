/* tw_gru_s8_mve.c - int8 GRU over a sequence with the Arm MVE extension: the products of tw_dot_mve.c. */
#include "tw_recurrent_mve.h"

#include "tw_dot_mve.h"
#include "tw_sequence.h"

void tw_gru_s8_mve(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch)
{
    tw_gru_over(p, in, state, out, scratch, tw_dot_s8_mve);
}
