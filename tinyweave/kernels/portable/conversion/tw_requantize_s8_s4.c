/* tw_requantize_s8_s4.c - int8 to int4 of another scale, portable C. */
#include "tw_requantize.h"

void tw_requantize_s8_s4_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    tw_requantize_pairs(p, in, 8, out, 4, range);
}

TW_WHOLE_FORM(tw_requantize_s8_s4, tw_requantization, tw_whole(in, p->shape), tw_whole_s4(out, p->shape), p->shape)
