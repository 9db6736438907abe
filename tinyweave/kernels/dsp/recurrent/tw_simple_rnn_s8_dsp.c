/* tw_simple_rnn_s8_dsp.c - int8 RNN over a sequence with the Arm DSP extension: the products of tw_dot_dsp.c. */
#include "tw_recurrent.h"

#include "tw_dot_dsp.h"
#include "tw_sequence.h"

void tw_simple_rnn_s8_dsp(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch)
{
    tw_simple_rnn_over(p, in, state, out, scratch, tw_dot_s8_dsp);
}
