/* tw_conv_dsp.c - a clamp that is not the range of int8, which the rescaling of the DSP kernels clamps to. */
#include "tw_conv_dsp.h"

void tw_conv_clamp(const tw_conv *p, int8_t *to, int32_t count)
{
    const int32_t low = p->out_min, high = p->out_max;
    for (int32_t i = 0; i < count; ++i) {
        to[i] = (int8_t)tw_clamp(to[i], low, high);
    }
}
