/* tw_conv_2d_s8_winograd_dsp.c - int8 convolution 3x3 with the Arm DSP extension: the tiles of a range, two at a time,
 * through tw_winograd.c. */
#include "tw_conv_dsp.h"

#include <stddef.h>
#include <string.h>

#include "tw_dsp.h"
#include "tw_winograd.h"

#define WINDOW 4
#define TILE 2
#define SUMS 64

/* The rows of a window, and the columns of the map that the range reads; all else is padding. */
typedef struct {
    const tw_conv_shape *p;
    const tw_view *in;
    const int8_t *padding;  /* two pixels of zero points */
    tw_span inside, cols;   /* rows of the window inside the map; columns of the map */
    int32_t offset[WINDOW]; /* of column 0 in each of those rows */
} tw_rows;

/* Sets the rows of a window that begins at map row `top`; rows from `bottom` on are padding. */
static void set_rows(tw_rows *rows, int32_t top, int32_t bottom)
{
    rows->inside.begin = tw_clamp(-top, 0, WINDOW);
    rows->inside.end = tw_clamp(bottom - top, 0, WINDOW);
    for (int32_t i = rows->inside.begin; i < rows->inside.end; ++i) {
        rows->offset[i] = tw_offset(rows->in, top + i, 0, rows->p->in.c);
    }
}

/* Transforms columns `left` and left + 1 of a window to B' d. */
static void two_columns(const tw_rows *rows, int32_t left, uint32_t *to)
{
    const int32_t channels = rows->p->in.c, words = channels / 2;
    const int32_t is_inside = left >= rows->cols.begin && left < rows->cols.end;
    const int32_t is_next = left + 1 >= rows->cols.begin && left + 1 < rows->cols.end;
    const int32_t at_once = is_inside == is_next ? 2 : 1;
    for (int32_t i = 0; i < 2; i += at_once) {
        const int8_t *from[WINDOW] = {rows->padding, rows->padding, rows->padding, rows->padding};
        if (i ? is_next : is_inside) {
            for (int32_t row = rows->inside.begin; row < rows->inside.end; ++row) {
                from[row] = (const int8_t *)rows->in->data + rows->offset[row] + (left + i) * channels;
            }
        }
        tw_winograd_columns(to, from, at_once * words);
        to += 4 * words;
    }
}

/* Computes and clamps the outputs of `count` tiles. */
static void multiply(const tw_conv_dsp *params, const tw_winograd *tiles, int32_t count)
{
    const tw_conv_shape *p = &params->conv;
    tw_winograd_outputs(tiles, count, params->stream, params->sign);
    for (int32_t i = 0; i < TILE * TILE * count; ++i) {
        tw_clamp_all(tiles->to[i], p->out.c, p->out_min, p->out_max);
    }
}

void tw_conv_2d_s8_winograd_dsp_part(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t channels = p->in.c, units = p->out.c;
    const int32_t two = tw_max(4 * channels, SUMS); /* words of two columns; sums reuse those of the two left columns */
    const int32_t bottom = tw_min(range.row_end + TILE - p->pad.h, p->in.h);
    const int32_t right = tw_min(range.col_end + TILE - p->pad.w, p->in.w);
    uint32_t *columns = (uint32_t *)scratch + WINDOW * WINDOW * channels;
    int8_t *nowhere = (int8_t *)(columns + 2 * two), *padding = nowhere + (units + 3) / 4 * 4; /* last: every call writes it */
    tw_rows rows = {p, &in, padding, {0, 0}, {0, right}, {0, 0, 0, 0}};
    tw_winograd tiles = {(uint32_t *)scratch, channels / 2, NULL,
                         {nowhere, nowhere, nowhere, nowhere, nowhere, nowhere, nowhere, nowhere}, units, p->out_zero};
    int32_t tile = 0;
    memset(padding, p->in_zero, 2 * (size_t)channels);

    for (int32_t y = range.row_begin; y < range.row_end; y += TILE) {
        int32_t left = range.col_begin - p->pad.w, half = 0;
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, units), *below = nowhere;
        if (y + 1 < range.row_end) {
            below = (int8_t *)tw_pixel(&out, y + 1, range.col_begin, units);
        }
        set_rows(&rows, y - p->pad.h, bottom);
        two_columns(&rows, left, columns);
        for (int32_t x = range.col_begin; x < range.col_end; x += TILE) {
            left += TILE;
            two_columns(&rows, left, columns + (two - half));
            tw_winograd_window(&tiles, tile, columns + half, columns + (two - half));
            tiles.sums = (int32_t *)(columns + half);
            half = two - half;
            int8_t **const outputs = tiles.to + TILE * TILE * tile;
            const int is_next = x + 1 < range.col_end;
            outputs[0] = to;
            outputs[1] = is_next ? to + units : nowhere;
            outputs[2] = below;
            outputs[3] = is_next && below != nowhere ? below + units : nowhere;
            to += TILE * units;
            below += below != nowhere ? TILE * units : 0;
            tile += 1;
            if (tile == 2) {
                multiply(params, &tiles, 2);
                tile = 0;
            }
        }
    }
    if (tile == 1) {
        multiply(params, &tiles, 1);
    }
}

TW_WHOLE_FORM_SCRATCH(tw_conv_2d_s8_winograd_dsp, tw_conv_dsp,
                      tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
