/* tw_requantize_s8_s8.c - int8 to int8 of another scale, portable C. */
#include "tw_requantize.h"

void tw_requantize_s8_s8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, int8_t, out, int8_t, range, tw_requantize_element(p, from[i]));
}

TW_WHOLE_FORM(tw_requantize_s8_s8, tw_requantization, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape)
