/* tw_requantize_s8_s4.c - int8 to int4 of another scale, portable C. */
#include "tw_requantize.h"

TW_FORMS(tw_requantize_s8_s4, tw_requantization, tw_whole(in, p->shape), tw_whole_s4(out, p->shape), p->shape,
         tw_requantize_pairs(p, in, 8, out, 4, range))
