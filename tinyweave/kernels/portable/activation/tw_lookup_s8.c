/* tw_lookup_s8.c - any function of one int8 element, by table. */
#include "tw_activation.h"

TW_FORMS(tw_lookup_s8, tw_lookup, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape, tw_lookup_over(p, in, out, range))
