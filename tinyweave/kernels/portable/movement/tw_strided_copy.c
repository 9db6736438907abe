/* tw_strided_copy.c - elements in another order, portable C. */
#include "tw_movement.h"

#include <string.h>

/* The innermost axis. */
static uint8_t *copy_runs(const tw_strides *p, const uint8_t *from, uint8_t *to)
{
    if (p->run == 1) {
        for (int32_t l = 0; l < p->size[3]; ++l) {
            *to++ = from[l * p->stride[3]];
        }
        return to;
    }
    for (int32_t l = 0; l < p->size[3]; ++l) {
        memmove(to, from + l * p->stride[3], (size_t)p->run);
        to += p->run;
    }
    return to;
}

void tw_strided_copy(const tw_strides *p, const void *in, void *out)
{
    const uint8_t *from = (const uint8_t *)in + p->start;
    uint8_t *to = (uint8_t *)out;
    for (int32_t i = 0; i < p->size[0]; ++i) {
        for (int32_t j = 0; j < p->size[1]; ++j) {
            for (int32_t k = 0; k < p->size[2]; ++k) {
                to = copy_runs(p, from + i * p->stride[0] + j * p->stride[1] + k * p->stride[2], to);
            }
        }
    }
}
