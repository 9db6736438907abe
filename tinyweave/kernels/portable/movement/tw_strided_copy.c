/* tw_strided_copy.c - elements in another order, portable C. */
#include "tw_movement.h"

#include <string.h>

static void copy_bytes(const uint8_t *from, int32_t step, uint8_t *to, int32_t out_step, int32_t count)
{
    for (; count >= 4; count -= 4, from += 4 * step, to += 4 * out_step) {
        to[0] = from[0];
        to[out_step] = from[step];
        to[2 * out_step] = from[2 * step];
        to[3 * out_step] = from[3 * step];
    }
    for (; count > 0; --count, from += step, to += out_step) {
        *to = *from;
    }
}

/* The innermost axis. */
static void copy_runs(const tw_strides *p, const uint8_t *from, uint8_t *to)
{
    const int32_t run = p->run, step = p->stride[3], out_step = p->out_stride[1];
    if (run == 1) {
        copy_bytes(from, step, to, out_step, p->size[3]);
        return;
    }
    for (int32_t count = p->size[3]; count > 0; --count, from += step, to += out_step) {
        memmove(to, from, (size_t)run);
    }
}

void tw_strided_copy(const tw_strides *p, const void *in, void *out)
{
    const uint8_t *from = (const uint8_t *)in + p->start;
    const int32_t block = p->size[2] * p->size[3] * p->run;
    uint8_t *to = (uint8_t *)out;
    for (int32_t i = 0; i < p->size[0]; ++i) {
        for (int32_t j = 0; j < p->size[1]; ++j, to += block) {
            for (int32_t k = 0; k < p->size[2]; ++k) {
                copy_runs(p, from + i * p->stride[0] + j * p->stride[1] + k * p->stride[2], to + k * p->out_stride[0]);
            }
        }
    }
}
