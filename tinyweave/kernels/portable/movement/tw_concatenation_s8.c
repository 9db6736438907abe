/* tw_concatenation_s8.c - one input of a concatenation, put into its place in the output, portable C. */
#include "tw_movement.h"

#include <string.h>

void tw_concatenation_s8_part(const tw_concatenation *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t begin = tw_max(p->before.w, range.col_begin);
    const int32_t end = tw_min(p->before.w + p->in.w, range.col_end);
    /* pixels of which the input holds all channels lie together */
    const int32_t together = p->in.c == p->out.c ? tw_max(end - begin, 1) : 1;

    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const int32_t n = row / p->out.h - p->before.n;
        const int32_t y = row % p->out.h - p->before.h;
        if (n < 0 || n >= p->in.n || y < 0 || y >= p->in.h || begin >= end) {
            continue;
        }
        const int8_t *from = (const int8_t *)tw_pixel(&in, n * p->in.h + y, begin - p->before.w, p->in.c);
        int8_t *to = (int8_t *)tw_pixel(&out, row, begin, p->out.c) + p->before.c;
        for (int32_t col = begin; col < end; col += together) {
            memmove(to, from, (size_t)(together * p->in.c));
            from += together * p->in.c;
            to += together * p->out.c;
        }
    }
}

TW_WHOLE_FORM(tw_concatenation_s8, tw_concatenation,
              tw_whole(in, tw_fold(p->in)), tw_whole(out, tw_fold(p->out)), tw_fold(p->out))
