/* tw_softmax_s8_s16.c - softmax of int8 with int16 results, portable C. */
#include "tw_softmax.h"

void tw_softmax_s8_s16(const tw_softmax *p, const void *in, void *out)
{
    const int8_t *from = (const int8_t *)in;
    int16_t *to = (int16_t *)out;
    for (int32_t i = 0; i < p->shape.h * p->shape.w; ++i) {
        const tw_softmax_pixel pixel = tw_softmax_sum(p, from, tw_exp_of_difference);
        for (int32_t j = 0; j < p->shape.c; ++j) {
            *to++ = (int16_t)(tw_softmax_element(p, &pixel, *from++, 16, tw_exp_of_difference) - 32768);
        }
    }
}
