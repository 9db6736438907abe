/* tw_transpose_conv_s8.c - int8 transposed convolution, portable C: the specification of every faster variant.
 *
 * Each output pixel collects what input pixels add to it: along an axis every stride-th tap meets an input, the next lower
 * one each time.
 */
#include "tw_conv.h"

#include "tw_dot.h"
#include "tw_meeting.h"

/* sums += what one output pixel collects for `filters` channels, 1 or 4. */
static void add_products(const tw_conv *p, const tw_view *in, const tw_meeting *rows, const tw_meeting *cols, const int8_t *weights,
                         int32_t filters, int32_t *sums)
{
    const int32_t filter = p->shape.kernel.h * p->shape.kernel.w * p->shape.in.c;
    for (int32_t i = 0; i < rows->count; ++i) {
        const int32_t tap = (rows->tap + i * p->shape.stride.h) * p->shape.kernel.w + cols->tap;
        const int8_t *x = (const int8_t *)tw_pixel(in, rows->from - i, cols->from, p->shape.in.c);
        const int8_t *taps = weights + tap * p->shape.in.c;
        for (int32_t j = 0; j < cols->count; ++j) {
            tw_dot_s8(x, 0, p->shape.in_zero, taps, filter, 0, p->shape.in.c, filters, sums);
            x -= p->shape.in.c;
            taps += p->shape.stride.w * p->shape.in.c;
        }
    }
}

void tw_transpose_conv_s8_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t filter = p->shape.kernel.h * p->shape.kernel.w * p->shape.in.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const tw_meeting rows = tw_meet(y + p->shape.pad.h, p->shape.kernel.h, p->shape.stride.h, p->shape.in.h);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.out.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const tw_meeting cols = tw_meet(x + p->shape.pad.w, p->shape.kernel.w, p->shape.stride.w, p->shape.in.w);
            int32_t channel = 0;
            while (channel < p->shape.out.c) {
                const int32_t filters = p->shape.out.c - channel >= 4 ? 4 : 1;
                int32_t sums[4] = {0, 0, 0, 0};
                add_products(p, &in, &rows, &cols, p->weights + channel * filter, filters, sums);
                tw_conv_finish(p, channel, sums, filters, to + channel);
                channel += filters;
            }
            to += p->shape.out.c;
        }
    }
}

TW_WHOLE_FORM(tw_transpose_conv_s8, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out)
