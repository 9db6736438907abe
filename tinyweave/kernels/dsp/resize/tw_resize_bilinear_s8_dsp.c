/* tw_resize_bilinear_s8_dsp.c - int8 bilinear interpolation with the Arm DSP extension, four channels at a time.
 *
 * Layers: resize_bilinear whose scales and offsets are multiples of 64, such as those of maps 2, 4 or 8 times as large. The
 * weights are then multiples of 2^12; in 2^-8 they sum to 256, so that a sum of inputs plus 128 is an unsigned lane of 16 bits.
 * One MLA adds two products: a word of two lanes, as one number, times a weight. At the edges weights may be negative, since
 * arithmetic is modulo 2^32.
 *
 * Cost: 32 instructions per 4 channels: four LDR, 8 SXTAB16, 8 MUL or MLA, 6 to round, 6 to join and store.
 */
#include "tw_resize.h"

#include "tw_dsp.h"
#include "tw_resize_bilinear.h"

#define UNIT 4096           /* of weights in 2^-20, which are multiples of it */
#define OFFSET 0x00800080u /* added to two inputs, so that they are not negative */

/* Rounds two sums in 2^-8, which are 2^15 too large, half away from zero: adds 127, and 1 more unless the result is negative. */
static inline uint32_t rounded(uint32_t sums)
{
    sums += 0x007F007Fu;
    return sums + ((sums >> 15) & 0x00010001u);
}

/* A tw_mixer. */
static int8_t *mix_fours(const tw_mixture *m, int32_t first, int32_t channels, int8_t *to)
{
    const uint32_t of_a = (uint32_t)(m->of_a / UNIT), of_b = (uint32_t)(m->of_b / UNIT);
    const uint32_t of_c = (uint32_t)(m->of_c / UNIT), of_d = (uint32_t)(m->of_d / UNIT);
    int32_t i = first;
    for (; i + 4 <= channels; i += 4, to += 4) {
        const uint32_t a = tw_word(m->a + i), b = tw_word(m->b + i), c = tw_word(m->c + i), d = tw_word(m->d + i);
        const uint32_t even = tw_sxtab16(OFFSET, a) * of_a + tw_sxtab16(OFFSET, b) * of_b + tw_sxtab16(OFFSET, c) * of_c +
                              tw_sxtab16(OFFSET, d) * of_d;
        const uint32_t odd = tw_sxtab16_odd(OFFSET, a) * of_a + tw_sxtab16_odd(OFFSET, b) * of_b +
                             tw_sxtab16_odd(OFFSET, c) * of_c + tw_sxtab16_odd(OFFSET, d) * of_d;
        const uint32_t bytes = ((rounded(even) >> 8) & 0x00FF00FFu) | (rounded(odd) & 0xFF00FF00u);
        tw_put_word(to, bytes ^ 0x80808080u);
    }
    return tw_mix(m, i, channels, to);
}

TW_FORMS(tw_resize_bilinear_s8_dsp, tw_resize_bilinear, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_resize_bilinear_over(p, in, out, range, mix_fours))
