/* tw_gather_nd.c - slices of a tensor, each named by a vector of indices, portable C. */
#include "tw_movement.h"

#include <string.h>

void tw_gather_nd(const tw_slices *p, const void *in, const void *indices, void *out)
{
    const int32_t *index = (const int32_t *)indices;
    uint8_t *to = (uint8_t *)out;
    for (int32_t i = 0; i < p->count; ++i) {
        const uint8_t *from = (const uint8_t *)in;
        for (int32_t k = 0; k < p->depth; ++k) {
            from += tw_clamp(*index++, 0, p->extent[k] - 1) * p->step[k];
        }
        memcpy(to, from, (size_t)p->run);
        to += p->run;
    }
}
