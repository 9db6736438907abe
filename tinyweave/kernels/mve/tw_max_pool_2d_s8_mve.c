/* tw_max_pool_2d_s8_mve.c - int8 maximum over a window with the Arm MVE extension, sixteen channels at a time.
 *
 * Cost: 5 instructions per pixel of the window and sixteen channels, 8 per row of it, 8 per sixteen outputs. */
#include "tw_pool_mve.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* Registers: lr: channels left; [first]: sixteen channels of the window's first pixel; [row], [rows]: the first pixel of
 * a row, rows left; [at], [cols]: a pixel, pixels of the row left, then bytes to the next row and of all rows of the view;
 * [ring_end]: the end of these; q0: maxima; q1: a pixel; q2, q3: the clamp. No stack.
 * Label 1: sixteen channels; 2: a row; 3: a pixel. DLSTP.8 and LETP predicate the tail of the channels, also in the loops
 * inside, so no byte beyond the last channel is read or written. Equals tw_pool_over in plain C. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    const struct { int32_t rows, cols, stride, ring; } frame = {window->rows, window->cols, in->row_stride,
                                                                in->ring_height * in->row_stride};
    const int8_t *first = (const int8_t *)in->data + window->offset;
    const int8_t *const ring_end = (const int8_t *)in->data + frame.ring;
    const int8_t *row, *at;
    int32_t rows = p->out_min, cols = p->out_max;
    __asm__ volatile(
        "vdup.8 q2, %[rows]\n"
        "vdup.8 q3, %[cols]\n"
        "dlstp.8 lr, %[step]\n"
        "1:\n"
        "mov %[row], %[first]\n"
        "ldr %[rows], [%[frame]]\n"
        "vmov q0, q2\n"
        "2:\n"
        "mov %[at], %[row]\n"
        "ldr %[cols], [%[frame], #4]\n"
        "3:\n"
        "vldrb.8 q1, [%[at]]\n"
        "add %[at], %[at], %[step]\n"
        "vmax.s8 q0, q0, q1\n"
        "subs %[cols], %[cols], #1\n"
        "bne 3b\n"
        "ldrd %[at], %[cols], [%[frame], #8]\n"
        "add %[row], %[row], %[at]\n"
        "cmp %[row], %[ring_end]\n"
        "it hs\n"
        "subhs %[row], %[row], %[cols]\n"
        "subs %[rows], %[rows], #1\n"
        "bne 2b\n"
        "vmin.s8 q0, q0, q3\n"
        "vstrb.8 q0, [%[to]], #16\n"
        "add %[first], %[first], #16\n"
        "letp lr, 1b\n"
        : [first] "+r"(first), [to] "+r"(to), [rows] "+r"(rows), [cols] "+r"(cols), [row] "=&r"(row), [at] "=&r"(at)
        : [frame] "r"(&frame), [step] "r"(window->pixel), [ring_end] "r"(ring_end)
        : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "cc", "memory");
}

TW_POOL_FORMS(tw_max_pool_2d_s8_mve, tw_pool_each(p, in, out, range, 1, pixel))

#else

TW_MAX_POOL_FORMS(tw_max_pool_2d_s8_mve)

#endif
