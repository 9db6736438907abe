/* tw_arg_max_s8_s32.c - where along an axis the largest int8 element lies, as int32, portable C. */
#include "tw_reduction.h"

void tw_arg_max_s8_s32(const tw_arg_max *p, const void *in, void *out)
{
    const int8_t *from = (const int8_t *)in;
    int32_t *to = (int32_t *)out;
    for (int32_t i = 0; i < p->outer; ++i, from += p->depth * p->inner) {
        for (int32_t k = 0; k < p->inner; ++k) {
            *to++ = tw_arg_max_of(from + k, p->depth, p->inner);
        }
    }
}
