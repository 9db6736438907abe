/* tw_dsp.c - what kernels with the Arm DSP extension share besides instructions. */
#include "tw_dsp.h"

#define BYTES 0x01010101u

void tw_clamp_all(int8_t *to, int32_t count, int32_t low, int32_t high)
{
    if (low == -128 && high == 127) {
        return;
    }
    int32_t i = 0;
    if (low < 0 && high >= 0) { /* what is added, so that it saturates, and taken off again is an int8 */
        const uint32_t above = (uint32_t)(127 - high) * BYTES, below = (uint32_t)(low + 128) * BYTES;
        for (; i + 4 <= count; i += 4) {
            const uint32_t capped = tw_qsub8(tw_qadd8(tw_word(to + i), above), above);
            tw_put_word(to + i, tw_qadd8(tw_qsub8(capped, below), below));
        }
    }
    for (; i < count; ++i) {
        to[i] = (int8_t)tw_clamp(to[i], low, high);
    }
}
