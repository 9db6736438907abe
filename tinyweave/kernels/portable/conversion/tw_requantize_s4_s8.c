/* tw_requantize_s4_s8.c - int4 to int8 of another scale, portable C. */
#include "tw_requantize.h"

TW_FORMS(tw_requantize_s4_s8, tw_requantization, tw_whole_s4(in, p->shape), tw_whole(out, p->shape), p->shape,
         tw_requantize_pairs(p, in, 4, out, 8, range))
