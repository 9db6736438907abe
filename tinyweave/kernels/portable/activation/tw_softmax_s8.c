/* tw_softmax_s8.c - int8 softmax, portable C: the specification of every faster variant. */
#include "tw_softmax.h"

static void softmax(const tw_softmax *p, const int8_t *from, int8_t *to)
{
    const tw_softmax_pixel pixel = tw_softmax_sum(p, from);
    for (int32_t i = 0; i < p->shape.c; ++i) {
        to[i] = (int8_t)(tw_softmax_element(p, &pixel, from[i], 8) - 128);
    }
}

TW_SOFTMAX_FORMS(tw_softmax_s8, tw_softmax, softmax)
