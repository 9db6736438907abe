/* tw_windows.h - im2col of dense convolutions: two windows at a time, widened to 16 bits for tw_pair.h. */
#ifndef TW_WINDOWS_H
#define TW_WINDOWS_H

#include "tw_conv.h"

/* The windows of a layer. A row of a window is `quads` quads of inputs and a tail of `rest`; the tails of all rows follow all
 * quads. */
typedef struct tw_windows tw_windows;

/* Gathers two windows inside the map: the first begins at `offset`, the second `next` bytes after it. */
typedef void tw_windows_pair(const tw_windows *windows, int32_t offset, int32_t next);

struct tw_windows {
    tw_windows_pair *pair;  /* the fastest function for the windows of the layer, small enough for small instruction caches */
    uint32_t *wide;         /* the im2col buffer, layout in tw_pair.h */
    const int8_t *data;     /* of the input */
    int32_t rows, quads, rest;
    int32_t last;           /* quads of tails per window */
    int32_t step, ring;     /* bytes from a row to the next; of the whole ring */
    int8_t *rests;          /* tails of each window, zeros up to a quad */
    int8_t *row;            /* a row that is partly padding; NULL if pixels are whole words or no window is padded */
    const tw_conv_shape *p;
};

/* Returns the quads of a window, those of tails included. */
int32_t tw_windows_quads(const tw_conv_shape *p);

/* Lays out the scratch of tw_conv_pairs; returns tw_windows_quads. */
int32_t tw_windows_set(tw_windows *windows, const tw_conv_shape *p, const tw_view *in, void *scratch);

/* Gathers a window inside the map that begins at `offset`, for pixel `slot`, 0 or 1. */
void tw_windows_inside(const tw_windows *windows, int32_t offset, int32_t slot);

/* Gathers any window, with padding; window: its rows; left: its first column. */
void tw_windows_across(const tw_windows *windows, const tw_window *window, int32_t left, int32_t slot);

#endif
