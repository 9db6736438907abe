/* tw_add_s8.c - int8 sum or difference with broadcasting, portable C: the specification of every faster variant. */
#include "tw_binary.h"

/* count elements; an operand moves by its step, 0 or 1, per element. */
static void add_run(const tw_add *params, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                    int32_t count)
{
    const tw_add p = *params; /* a copy, since stores through `to` might change the original */
    for (int32_t i = 0; i < count; ++i) {
        *to++ = (int8_t)tw_add_element(&p, *a, *b);
        a += a_step;
        b += b_step;
    }
}

TW_BINARY_FORMS(tw_add_s8, tw_add, add_run)
