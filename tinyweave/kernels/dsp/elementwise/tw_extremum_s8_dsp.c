/* tw_extremum_s8_dsp.c - the smaller or the larger of two int8 operands with broadcasting, with the Arm DSP extension: four
 * neighbouring elements at a time if neither operand repeats along the channels. */
#include "tw_binary_dsp.h"

#include "tw_dsp.h"

/* `count` elements; an operand advances by its step, 0 or 1, per element. */
static void extremum_run(const tw_extremum *p, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                         int32_t count)
{
    const uint32_t flip = p->larger ? 0 : 0xFFFFFFFFu; /* the smaller element has the larger complement */
    for (; (a_step & b_step) && count >= 4; count -= 4) {
        tw_put_word(to, tw_larger_bytes(tw_word(a) ^ flip, tw_word(b) ^ flip) ^ flip);
        a += 4;
        b += 4;
        to += 4;
    }
    for (; count > 0; --count) {
        *to++ = (int8_t)((tw_max(*a ^ (int32_t)flip, *b ^ (int32_t)flip)) ^ (int32_t)flip);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_extremum_s8_dsp, tw_extremum, extremum_run)
