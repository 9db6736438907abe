/* tw_pad_s8.c - a tensor in a larger one filled with a value, portable C. */
#include "tw_movement.h"

#include <string.h>

static int8_t *fill(int8_t *to, int32_t value, int32_t count)
{
    memset(to, value, (size_t)count);
    return to + count;
}

void tw_pad_s8_part(const tw_pad *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t after = p->out.c - p->before.c - p->in.c;
    const int32_t begin = tw_clamp(p->before.w, range.col_begin, range.col_end);
    const int32_t end = tw_clamp(p->before.w + p->in.w, begin, range.col_end);

    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        int8_t *to = (int8_t *)tw_pixel(&out, row, range.col_begin, p->out.c);
        const int32_t n = row / p->out.h - p->before.n;
        const int32_t y = row % p->out.h - p->before.h;
        if (n < 0 || n >= p->in.n || y < 0 || y >= p->in.h) {
            fill(to, p->value, (range.col_end - range.col_begin) * p->out.c);
            continue;
        }
        to = fill(to, p->value, (begin - range.col_begin) * p->out.c);
        if (begin < end) {
            const int8_t *from = (const int8_t *)tw_pixel(&in, n * p->in.h + y, begin - p->before.w, p->in.c);
            /* pixels that are not padded lie together */
            const int32_t together = p->in.c == p->out.c ? end - begin : 1;
            for (int32_t col = begin; col < end; col += together) {
                to = fill(to, p->value, p->before.c);
                memmove(to, from, (size_t)(together * p->in.c));
                from += together * p->in.c;
                to = fill(to + together * p->in.c, p->value, after);
            }
        }
        fill(to, p->value, (range.col_end - end) * p->out.c);
    }
}

TW_WHOLE_FORM(tw_pad_s8, tw_pad, tw_whole(in, tw_fold(p->in)), tw_whole(out, tw_fold(p->out)), tw_fold(p->out))
