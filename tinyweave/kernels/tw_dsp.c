/* tw_dsp.c - what kernels with the Arm DSP extension share besides instructions. */
#include "tw_dsp.h"

void tw_clamp_all(int8_t *to, int32_t count, int32_t low, int32_t high)
{
    if (low == -128 && high == 127) {
        return;
    }
    for (int32_t i = 0; i < count; ++i) {
        to[i] = (int8_t)tw_clamp(to[i], low, high);
    }
}
