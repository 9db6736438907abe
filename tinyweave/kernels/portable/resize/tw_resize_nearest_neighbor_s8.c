/* tw_resize_nearest_neighbor_s8.c - each pixel the nearest one of the input, portable C. */
#include "tw_resize.h"

#include "tw_copy.h"

void tw_resize_nearest_neighbor_s8_part(const tw_resize_nearest *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t bytes = p->in.c;
    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const uint8_t *from = (const uint8_t *)tw_pixel(&in, p->row[row], in.first_col, bytes);
        uint8_t *to = (uint8_t *)tw_pixel(&out, row, range.col_begin, bytes);
        for (int32_t col = range.col_begin; col < range.col_end; ++col) {
            tw_move_bytes(to, from + (p->col[col] - in.first_col) * bytes, bytes);
            to += bytes;
        }
    }
}

TW_WHOLE_FORM(tw_resize_nearest_neighbor_s8, tw_resize_nearest, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
