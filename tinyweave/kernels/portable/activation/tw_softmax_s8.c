/* tw_softmax_s8.c - int8 softmax, portable C: the specification of every faster variant. */
#include "tw_softmax.h"

static void softmax(const tw_softmax *p, const int8_t *from, int8_t *to) { tw_softmax_pixel_s8(p, from, to, tw_exp_of_difference); }

TW_PIXEL_FORMS(tw_softmax_s8, tw_softmax, p, softmax)
