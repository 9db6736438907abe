/* tw_fully_connected_s16_dsp.c - dense layer of int16 rows with the Arm DSP extension. */
#include "tw_fully_connected.h"

#include "tw_fully_connected_dsp_rows.h"
#include "tw_fully_connected_s16_over.h"
#include "tw_multiply_s16_dsp.h"

/* A tw_rescale_s16. */
static inline int32_t rescale_any(const tw_dense *p, int32_t index, int32_t sum)
{
    return p->shift[index] > -2 ? tw_requantize_once(sum, p->multiplier[index], p->shift[index])
                                : rescaled(sum, factor_of(p, index));
}

void tw_fully_connected_s16_dsp(const tw_fully_connected *p, const void *in, void *out)
{
    tw_fully_connected_s16_over(p, (const int16_t *)in, (int16_t *)out, tw_multiply_s16_dsp, rescale_any);
}
