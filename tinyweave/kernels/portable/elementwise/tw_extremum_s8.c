/* tw_extremum_s8.c - the smaller or the larger of two int8 operands with broadcasting, portable C. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void extremum_run(int32_t larger, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                         int32_t count)
{
    for (int32_t i = 0; i < count; ++i) {
        *to++ = (*a > *b) == (larger != 0) ? *a : *b;
        a += a_step;
        b += b_step;
    }
}

void tw_extremum_s8_part(const tw_extremum *p, tw_view a, tw_view b, tw_view out, tw_range range)
{
    TW_EACH_RUN(p, a, b, out, range,
                extremum_run(p->larger, from_a, a_steps.channel, from_b, b_steps.channel, to, together * p->out.c));
}

TW_WHOLE_BROADCAST(tw_extremum_s8, tw_extremum, tw_whole, p)
