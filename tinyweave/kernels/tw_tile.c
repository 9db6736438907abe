/* tw_tile.c - what layers that run together, a few columns of a row at a time, pass on to each other. */
#include "tw_tile.h"

#include <string.h>

static tw_span needed(int32_t begin, int32_t end, int32_t stride, int32_t pad, int32_t extent, int32_t size)
{
    tw_span span;
    span.begin = tw_clamp(begin * stride - pad, 0, size);
    span.end = begin < end ? tw_clamp((end - 1) * stride - pad + extent, span.begin, size) : span.begin;
    return span;
}

tw_range tw_slide(tw_tile *tile, tw_range range)
{
    const tw_span rows = needed(range.row_begin, range.row_end, tile->stride.h, tile->pad.h, tile->extent.h, tile->size.h);
    const tw_span cols = needed(range.col_begin, range.col_end, tile->stride.w, tile->pad.w, tile->extent.w, tile->size.w);
    const int32_t kept = tw_max(tile->end - cols.begin, 0), shift = (cols.begin - tile->map.first_col) * tile->pixel;
    if (kept > 0 && shift > 0) {
        uint8_t *to = (uint8_t *)tile->map.data;
        for (int32_t row = rows.begin; row < rows.end; ++row) {
            memmove(to, to + shift, (size_t)(kept * tile->pixel));
            to += tile->map.row_stride;
        }
    }
    tile->map.first_row = rows.begin;
    tile->map.first_col = cols.begin;
    tile->end = tw_max(cols.end, cols.begin + kept);
    range.row_begin = rows.begin;
    range.row_end = rows.end;
    range.col_begin = cols.begin + kept;
    range.col_end = tile->end;
    return range;
}
