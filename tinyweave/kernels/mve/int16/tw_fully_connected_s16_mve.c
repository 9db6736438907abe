/* tw_fully_connected_s16_mve.c - dense layer of int16 rows with the Arm MVE extension. */
#include "tw_fully_connected.h"

#include "tw_fully_connected_s16_over.h"
#include "tw_multiply_s16_mve.h"

void tw_fully_connected_s16_mve(const tw_fully_connected *p, const void *in, void *out)
{
    tw_fully_connected_s16_over(p, (const int16_t *)in, (int16_t *)out, tw_multiply_s16_mve);
}
