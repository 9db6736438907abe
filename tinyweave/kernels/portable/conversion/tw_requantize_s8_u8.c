/* tw_requantize_s8_u8.c - int8 to uint8 of another scale, portable C. */
#include "tw_requantize.h"

void tw_requantize_s8_u8_part(const tw_requantization *p, tw_view in, tw_view out, tw_range range)
{
    TW_EACH_ELEMENT(p, in, int8_t, out, uint8_t, range, tw_requantize_element(p, from[i]));
}

TW_WHOLE_FORM(tw_requantize_s8_u8, tw_requantization, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape)
