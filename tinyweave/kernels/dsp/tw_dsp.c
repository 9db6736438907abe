/* tw_dsp.c - clamping of outputs, four bytes at a time, for the kernels with the Arm DSP extension. */
#include "tw_dsp.h"

#define BYTES 0x01010101u

/* Clamps whole words of bytes at one end: moves the limit to the end of int8 by adding `past` with saturation, in two steps of
 * an int8 each, then takes it off again. Returns how many bytes are done. */
TW_INLINE int32_t clamp_words(int8_t *to, int32_t count, int32_t past, uint32_t (*there)(uint32_t, uint32_t),
                              uint32_t (*back)(uint32_t, uint32_t))
{
    const int32_t most = tw_min(past, 127), rest = past - most;
    const uint32_t first = (uint32_t)most * BYTES, second = (uint32_t)rest * BYTES;
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const uint32_t word = there(there(tw_word(to + i), first), second);
        tw_put_word(to + i, back(back(word, first), second));
    }
    return i;
}

void tw_clamp_bytes(int8_t *to, int32_t count, int32_t low, int32_t high)
{
    int32_t done = count;
    if (low > 126 || high < -127) { /* both steps must be an int8 */
        done = 0;
    } else {
        if (low > -128) {
            done = clamp_words(to, count, low + 128, tw_qsub8, tw_qadd8);
        }
        if (high < 127) {
            done = clamp_words(to, count, 127 - high, tw_qadd8, tw_qsub8);
        }
    }
    for (int32_t i = done; i < count; ++i) {
        to[i] = (int8_t)tw_clamp(to[i], low, high);
    }
}
