/* tw_strided_copy.c - elements in another order, portable C. */
#include "tw_movement.h"

#include "tw_copy.h"

/* The innermost axis. */
static void copy_runs(const tw_strides *p, const uint8_t *from, uint8_t *to)
{
    const int32_t run = p->run, step = p->stride[3], out_step = p->out_stride[1];
    if (run == 1) {
        tw_copy_bytes(to, out_step, from, step, p->size[3]);
        return;
    }
    for (int32_t count = p->size[3]; count > 0; --count, from += step, to += out_step) {
        tw_move_bytes(to, from, run);
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
