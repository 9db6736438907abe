/* tw_one_constant_s8.c - an int8 op on two operands of which one is a constant with one element, by table. */
#include "tw_activation.h"

TW_FORMS(tw_one_constant_s8, tw_lookup, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape,
         tw_lookup_over(p, in, out, range))
