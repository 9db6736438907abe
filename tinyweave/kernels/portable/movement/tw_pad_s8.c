/* tw_pad_s8.c - a tensor in a larger one filled with a value, portable C. */
#include "tw_movement.h"

#include "tw_copy.h"

static int8_t *fill(int8_t *to, int32_t value, int32_t count)
{
    tw_fill(to, value, count);
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
                tw_move_bytes(to, from, together * p->in.c);
                from += together * p->in.c;
                to = fill(to + together * p->in.c, p->value, after);
            }
        }
        fill(to, p->value, (range.col_end - end) * p->out.c);
    }
}

void tw_pad_s8(const tw_pad *p, const void *in, void *out)
{
    const int32_t row = p->out.w * p->out.c, map = p->out.h * row;
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out, *const end = to + p->out.n * map;
    /* padding up to the next run */
    int32_t gap = p->before.n * map + p->before.h * row + p->before.w * p->out.c + p->before.c;

    for (int32_t n = 0; n < p->in.n; ++n) {
        for (int32_t y = 0; y < p->in.h; ++y) {
            for (int32_t x = 0; x < p->in.w; ++x) {
                to = fill(to, p->value, gap);
                tw_move_bytes(to, from, p->in.c);
                from += p->in.c;
                to += p->in.c;
                gap = p->out.c - p->in.c;
            }
            gap += (p->out.w - p->in.w) * p->out.c;
        }
        gap += (p->out.h - p->in.h) * row;
    }
    fill(to, p->value, (int32_t)(end - to));
}
