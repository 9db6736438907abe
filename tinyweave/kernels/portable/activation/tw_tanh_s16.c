/* tw_tanh_s16.c - int16 tanh, portable C. */
#include "tw_sigmoid_s16.h"

/* tanh(x) = 2 logistic(2 x) - 1 */
static inline int32_t tanh_of(const tw_sigmoid_s16 *p, int32_t x)
{
    const int32_t argument = tw_sigmoid_argument(p, x), value = tw_sigmoid_between(p, argument, 8, 65535) - (1 << 23);
    return (argument >= 0 ? value + 128 : 127 - value) >> 8;
}

TW_ELEMENTWISE_FORMS(tw_tanh_s16, tw_sigmoid_s16, int16_t, int16_t, tanh_of(p, from[i]))
