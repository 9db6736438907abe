/* tw_simple_rnn_s8.c - int8 RNN over a sequence, portable C: the specification of every faster variant. */
#include "tw_recurrent.h"

#include "tw_dot.h"
#include "tw_sequence.h"

void tw_simple_rnn_s8(const tw_sequence *p, const void *in, const void *state, void *out, void *scratch)
{
    tw_simple_rnn_over(p, in, state, out, scratch, tw_dot_s8);
}
