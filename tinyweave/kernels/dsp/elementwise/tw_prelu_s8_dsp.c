/* tw_prelu_s8_dsp.c - int8 prelu with a constant slope per channel as linear functions, with the Arm DSP extension.
 *
 * Cost: an element takes eleven instructions: a load, the subtraction of the zero point, three to select the line, a load of
 * both its numbers, MLA, the shift, SSAT, a store, and a quarter of the loop's four. */
#include "tw_prelu_dsp.h"

#include "tw_dsp.h"

/* The output of an element, for the lines of negative and of other inputs. */
static inline int8_t output(const int32_t *below, const int32_t *above, int8_t value, int32_t zero, int32_t shift)
{
    const int32_t x = value - zero, *const line = x < 0 ? below : above;
    return (int8_t)tw_ssat8((x * line[0] + line[1]) >> shift);
}

/* The channels of a pixel. */
static void pixel(const tw_prelu_dsp *p, const int8_t *from, int8_t *to)
{
    const int32_t *below = p->negative, *const above = p->positive;
    const int32_t zero = p->in_zero, shift = p->shift;
    int32_t left = p->shape.c;
    for (; left >= 4; left -= 4) {
        to[0] = output(below, above, from[0], zero, shift);
        to[1] = output(below + 2, above, from[1], zero, shift);
        to[2] = output(below + 4, above, from[2], zero, shift);
        to[3] = output(below + 6, above, from[3], zero, shift);
        from += 4;
        to += 4;
        below += 8;
    }
    for (; left > 0; --left) {
        *to++ = output(below, above, *from++, zero, shift);
        below += 2;
    }
}

TW_PIXEL_FORMS(tw_prelu_s8_dsp, tw_prelu_dsp, p, pixel)
