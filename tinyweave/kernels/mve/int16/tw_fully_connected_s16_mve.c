/* tw_fully_connected_s16_mve.c - dense layer of int16 rows with the Arm MVE extension. */
#include "tw_fully_connected.h"

#include "tw_fully_connected_s16_over.h"
#include "tw_multiply_s16_mve.h"

/* A tw_rescale_s16. */
static inline int32_t rescale(const tw_dense *p, int32_t index, int32_t sum)
{
    return tw_requantize_once(sum, p->multiplier[index], p->shift[index]);
}

void tw_fully_connected_s16_mve(const tw_fully_connected *p, const void *in, void *out)
{
    tw_fully_connected_s16_over(p, (const int16_t *)in, (int16_t *)out, tw_multiply_s16_mve, rescale);
}
