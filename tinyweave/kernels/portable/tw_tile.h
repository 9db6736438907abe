/* tw_tile.h - what layers that run together, a few columns of a few rows at a time, pass on to each other. */
#ifndef TW_TILE_H
#define TW_TILE_H

#include "tw.h"

/* The part of a feature map that one layer wrote and others read. */
typedef struct {
    tw_view map;
    int32_t end;   /* columns map.first_col to end are there */
    int32_t pixel; /* bytes */
} tw_tile;

/* What a layer reads: for row i of its output rows [i * stride - pad, i * stride - pad + extent), those of `size`, the whole
 * map; columns likewise. */
typedef struct { tw_size extent, stride, pad, size; } tw_field;

/* What a layer with this field reads for `range` of its output. */
tw_range tw_reads(const tw_field *field, tw_range range);

/* What two layers need of the same map. */
tw_range tw_hull(tw_range a, tw_range b);

/* Moves the tile on to what is needed. Columns that are there already stay, moved to the start; returns the rows and columns
 * that are to be written before it is read. */
tw_range tw_slide(tw_tile *tile, tw_range needed);

#endif
