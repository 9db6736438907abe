/* tw_logistic_s16.c - int16 logistic, portable C. */
#include "tw_sigmoid_s16.h"

static inline int32_t logistic(const tw_sigmoid_s16 *p, int32_t x)
{
    const int32_t argument = tw_sigmoid_argument(p, x), value = tw_sigmoid_between(p, argument, 9, 65534);
    return (argument >= 0 ? value + 512 : (1 << 25) - value + 511) >> 10;
}

TW_ELEMENTWISE_FORMS(tw_logistic_s16, tw_sigmoid_s16, int16_t, int16_t, logistic(p, from[i]))
