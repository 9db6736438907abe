/* tw_line_put.h - stores columns of four channels in the four lines of depthwise convolutions, with the Arm DSP extension. */
#ifndef TW_LINE_PUT_H
#define TW_LINE_PUT_H

#include "tw_dsp.h"
#include "tw_line.h"

/* Stores two columns of four channels as one word in each of the four lines. */
static inline void tw_line_put(uint32_t *to, uint32_t first, uint32_t second)
{
    const uint32_t low = tw_pkhbt(first, second), high = tw_pkhtb(first, second);
    to[0] = tw_sxtb16(low);
    to[TW_LINE_WORDS] = tw_sxtb16_odd(low);
    to[2 * TW_LINE_WORDS] = tw_sxtb16(high);
    to[3 * TW_LINE_WORDS] = tw_sxtb16_odd(high);
}

/* Stores four columns of four channels, `step` bytes apart, as two words in each of the four lines. */
static inline void tw_line_put_two(uint32_t *to, const int8_t *from, int32_t step)
{
    const uint32_t first = tw_word(from), second = tw_word(from + step);
    const uint32_t third = tw_word(from + 2 * step), fourth = tw_word(from + 3 * step);
    tw_line_put(to, first, second);
    tw_line_put(to + 1, third, fourth);
}

#endif
