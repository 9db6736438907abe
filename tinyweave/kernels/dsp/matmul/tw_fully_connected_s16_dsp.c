/* tw_fully_connected_s16_dsp.c - dense layer of int16 rows with the Arm DSP extension. */
#include "tw_fully_connected.h"

#include "tw_fully_connected_s16_over.h"
#include "tw_multiply_s16_dsp.h"

void tw_fully_connected_s16_dsp(const tw_fully_connected *p, const void *in, void *out)
{
    tw_fully_connected_s16_over(p, (const int16_t *)in, (int16_t *)out, tw_multiply_s16_dsp);
}
