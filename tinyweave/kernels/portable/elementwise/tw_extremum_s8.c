/* tw_extremum_s8.c - the smaller or the larger of two int8 operands with broadcasting, portable C. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void extremum_run(const tw_extremum *p, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                         int32_t count)
{
    const int32_t larger = p->larger;
    for (int32_t i = 0; i < count; ++i) {
        *to++ = (*a > *b) == (larger != 0) ? *a : *b;
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_extremum_s8, tw_extremum, extremum_run)
