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

/* Stores four columns of four channels, `step` bytes apart, as two words in each of the four lines; advances `to` and `from`.
 * Registers: [in]: input; [by]: step; [word]: where words go; [a] .. [d]: columns 0 .. 3, then their halves; r12, lr: channels 2
 * and 3 of columns 0 and 1, of columns 2 and 3. No stack. [line]: bytes of a line.
 * Order: the column at [by] is loaded first, so that one ADD moves past both. Two words of a line are stored by one STRD. The
 * line of channel 0 is stored last, since its store advances [word]. Equals two calls of tw_line_put(). */
#define TW_LINE_STORE_TWO(first, second, rotated, at) \
    "sxtb16 %[b], " first rotated "\nsxtb16 %[d], " second rotated "\nstrd %[b], %[d], [%[word]" at "\n"
static inline void tw_line_put_two(uint32_t **to, const int8_t **from, int32_t step)
{
#if TW_HAS_DSP
    uint32_t a, b, c, d;
    __asm__ volatile("ldr %[b], [%[in], %[by]]\n"
                     "ldr %[a], [%[in]]\n"
                     "add %[in], %[in], %[by], lsl #1\n"
                     "ldr %[d], [%[in], %[by]]\n"
                     "ldr %[c], [%[in]]\n"
                     "add %[in], %[in], %[by], lsl #1\n"
                     "pkhtb r12, %[b], %[a], asr #16\n"
                     "pkhtb lr, %[d], %[c], asr #16\n"
                     "pkhbt %[a], %[a], %[b], lsl #16\n"
                     "pkhbt %[c], %[c], %[d], lsl #16\n"
                     TW_LINE_STORE_TWO("r12", "lr", "", ", #2*%c[line]]")
                     TW_LINE_STORE_TWO("r12", "lr", ", ror #8", ", #3*%c[line]]")
                     TW_LINE_STORE_TWO("%[a]", "%[c]", ", ror #8", ", %[line]]")
                     TW_LINE_STORE_TWO("%[a]", "%[c]", "", "], #8")
                     : [word] "+r"(*to), [in] "+r"(*from), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
                     : [by] "r"(step), [line] "i"(4 * TW_LINE_WORDS)
                     : "r12", "lr", "memory");
#else
    for (int32_t half = 0; half < 2; ++half, *from += 2 * step) {
        tw_line_put((*to)++, tw_word(*from), tw_word(*from + step));
    }
#endif
}

#endif
