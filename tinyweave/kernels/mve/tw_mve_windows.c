/* tw_mve_windows.c - im2col of dense convolutions with the Arm MVE extension. A file of its own, so that it is not inlined
 * where registers are scarce. The copies may write to any memory: what a loop reads of `in` and `window` is read before it. */
#include "tw_mve_windows.h"

#include "tw_mve.h"

void tw_mve_windows_inside(const tw_conv_shape *p, const tw_view *in, const tw_window *window, int32_t left, int32_t count,
                           int8_t *to)
{
    const int32_t run = p->kernel.w * p->in.c, step = p->stride.w * p->in.c, bytes = tw_mve_up(p->kernel.h * run);
    const int8_t *const data = (const int8_t *)in->data;
    const int32_t down = window->step, ring = window->ring;
    int32_t offset = window->row_offset + left * p->in.c;
    for (int32_t row = p->kernel.h; row > 0; --row) {
        tw_copies(to, bytes, data + offset, step, run, count);
        to += run;
        offset = tw_down(offset, down, ring);
    }
}

void tw_mve_windows_across(const tw_conv_shape *p, const tw_view *in, const tw_window *window, int32_t left, int8_t *to)
{
    const int32_t c = p->in.c, run = p->kernel.w * c, before = tw_clamp(-left, 0, p->kernel.w);
    const int32_t inside = tw_min(p->kernel.w, p->in.w - left) - before;
    const int8_t *const data = (const int8_t *)in->data;
    const int32_t down = window->step, ring = window->ring;
    int32_t offset = window->row_offset + (left + before) * c;
    tw_fill(to, p->in_zero, p->kernel.h * run);
    if (inside > 0) {
        to += (window->row_tap + before) * c;
        for (int32_t row = window->rows; row > 0; --row) {
            tw_copy(to, data + offset, inside * c);
            to += run;
            offset = tw_down(offset, down, ring);
        }
    }
}
