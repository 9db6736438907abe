/* tw_windows.h - the windows of dense convolutions, two at a time, widened to 16 bits for tw_pair. */
#ifndef TW_WINDOWS_H
#define TW_WINDOWS_H

#include "tw_conv.h"

/* A layer's windows: a row of one is `quads` times four inputs and `rest` more, which lie after those of all rows. */
typedef struct tw_windows tw_windows;

/* Gathers two windows that lie inside the map, from `offset` and `next` bytes further on. */
typedef void tw_windows_pair(const tw_windows *windows, int32_t offset, int32_t next);

struct tw_windows {
    tw_windows_pair *pair;  /* what the layer's windows take least time with; few bytes of code, for small caches */
    uint32_t *wide;         /* two windows, as tw_pair.h says */
    const int8_t *data;     /* of the input */
    int32_t rows, quads, rest;
    int32_t last;           /* times four of what is left over, per pixel */
    int32_t step, ring;     /* bytes from a row to the next; of the whole ring */
    int8_t *rests;          /* for what is left over, per pixel, zeros up to a multiple of four at the end */
    int8_t *row;            /* for a row that is partly padding, where its pixels are no whole words */
    const tw_conv *p;
};

/* How many times four inputs a window has. */
int32_t tw_windows_quads(const tw_conv *p);

/* Lays the scratch of tw_conv_pairs out; returns how many times four inputs a window has. */
int32_t tw_windows_set(tw_windows *windows, const tw_conv *p, const tw_view *in, void *scratch);

/* Gathers a window that lies inside the map, from `offset` on, for pixel `slot`, 0 or 1. */
void tw_windows_inside(const tw_windows *windows, int32_t offset, int32_t slot);

/* Gathers any window; window: its rows; left: its first column. */
void tw_windows_across(const tw_windows *windows, const tw_window *window, int32_t left, int32_t slot);

#endif
