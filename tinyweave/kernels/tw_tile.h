/* tw_tile.h - what layers that run together, a few columns of a row at a time, pass on to each other. */
#ifndef TW_TILE_H
#define TW_TILE_H

#include "tw.h"

/* The part of a feature map that one layer wrote and the next one reads, and that one's window. */
typedef struct {
    tw_view map;
    int32_t end;                  /* columns map.first_col to end are there */
    tw_size extent, stride, pad;  /* output row i reads rows [i * stride - pad, i * stride - pad + extent); columns likewise */
    tw_size size;                 /* the whole map's rows and columns */
    int32_t pixel;                /* bytes */
} tw_tile;

/* Moves the tile on to what `range` of the reading layer's output needs. Columns that are there already stay, moved to the
 * start; returns the rows and columns that are to be written before it is read. */
tw_range tw_slide(tw_tile *tile, tw_range range);

#endif
