/* tw_tile.c - tiles of feature maps that the layers of a fused stage pass to each other. */
#include "tw_tile.h"

#include <string.h>

static tw_span reads(int32_t begin, int32_t end, int32_t stride, int32_t pad, int32_t extent, int32_t size)
{
    tw_span span;
    span.begin = tw_clamp(begin * stride - pad, 0, size);
    span.end = begin < end ? tw_clamp((end - 1) * stride - pad + extent, span.begin, size) : span.begin;
    return span;
}

tw_range tw_reads(const tw_field *field, tw_range range)
{
    const tw_span rows =
        reads(range.row_begin, range.row_end, field->stride.h, field->pad.h, field->extent.h, field->size.h);
    const tw_span cols =
        reads(range.col_begin, range.col_end, field->stride.w, field->pad.w, field->extent.w, field->size.w);
    const tw_range found = {rows.begin, rows.end, cols.begin, cols.end};
    return found;
}

tw_range tw_hull(tw_range a, tw_range b)
{
    a.row_begin = tw_min(a.row_begin, b.row_begin);
    a.row_end = tw_max(a.row_end, b.row_end);
    a.col_begin = tw_min(a.col_begin, b.col_begin);
    a.col_end = tw_max(a.col_end, b.col_end);
    return a;
}

tw_range tw_slide(tw_tile *tile, tw_range needed)
{
    const int32_t kept = tw_max(tile->end - needed.col_begin, 0);
    const int32_t shift = (needed.col_begin - tile->map.first_col) * tile->pixel;
    if (kept > 0 && shift > 0) {
        uint8_t *to = (uint8_t *)tile->map.data;
        for (int32_t row = needed.row_begin; row < needed.row_end; ++row) {
            memmove(to, to + shift, (size_t)(kept * tile->pixel));
            to += tile->map.row_stride;
        }
    }
    tile->map.first_row = needed.row_begin;
    tile->map.first_col = needed.col_begin;
    tile->end = tw_max(needed.col_end, needed.col_begin + kept);
    needed.col_begin += kept;
    needed.col_end = tile->end;
    return needed;
}
