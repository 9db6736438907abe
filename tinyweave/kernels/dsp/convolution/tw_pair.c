/* tw_pair.c - the last filters of dense convolutions with the Arm DSP extension whose filters are not a multiple of four. A file
 * of its own, so that the inner loops need not save registers for it. */
#include "tw_pair.h"

void tw_pair_tail(const tw_pair *pair, const uint32_t *stream, int32_t sign, tw_pair_fours *products)
{
    const int32_t count = (int32_t)(pair->to_0_end - pair->to_0), rest = count & 3, fours = count - rest;
    tw_pair part = *pair;
    if (fours > 0) {
        part.to_0_end -= rest;
        stream = products(&part, stream, sign);
    }
    int8_t last_0[4], last_1[4];
    part.to_0 = last_0;
    part.to_1 = pair->to_1 == pair->to_0 ? last_0 : last_1;
    part.to_0_end = last_0 + 4;
    products(&part, stream, sign);
    for (int32_t i = 0; i < rest; ++i) {
        pair->to_1[fours + i] = part.to_1[i];
        pair->to_0[fours + i] = last_0[i];
    }
}
