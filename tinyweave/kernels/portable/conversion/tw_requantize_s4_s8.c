/* tw_requantize_s4_s8.c - int4 to int8 of another scale, portable C. */
#include "tw_requantize.h"

void tw_requantize_s4_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    tw_requantize_pairs(p, in, 4, out, 8, range);
}

TW_WHOLE_FORM(tw_requantize_s4_s8, tw_requantization, tw_whole_s4(in, p->shape), tw_whole(out, p->shape), p->shape)
