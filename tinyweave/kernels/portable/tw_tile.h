/* tw_tile.h - tiles of feature maps that the layers of a fused stage pass to each other. */
#ifndef TW_TILE_H
#define TW_TILE_H

#include "tw.h"

/* The part of a feature map that a layer has written for others to read. */
typedef struct {
    tw_view map;
    int32_t end;   /* columns [map.first_col, end) are present */
    int32_t pixel; /* bytes */
} tw_tile;

/* The receptive field of a layer: output row i reads rows [i * stride - pad, i * stride - pad + extent) of a map of `size`;
 * columns likewise. */
typedef struct { tw_size extent, stride, pad, size; } tw_field;

/* The range of the input that a layer reads for a range of its output. */
tw_range tw_reads(const tw_field *field, tw_range range);

/* The smallest range that holds both. */
tw_range tw_hull(tw_range a, tw_range b);

/* Slides the tile to the range `needed`. Columns already present are moved to its start. Returns the range that must be written
 * before the tile is read. */
tw_range tw_slide(tw_tile *tile, tw_range needed);

#endif
