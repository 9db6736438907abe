/* tw_lookup_s8.c - any function of one int8 element, by table. */
#include "tw_activation.h"

void tw_lookup_s8_part(const tw_lookup *p, tw_view in, tw_view out, tw_range range)
{
    const int8_t *table = p->table + 128;
    TW_EACH_ELEMENT(p, in, int8_t, out, int8_t, range, table[from[i]]);
}

TW_WHOLE_FORM(tw_lookup_s8, tw_lookup, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape)
