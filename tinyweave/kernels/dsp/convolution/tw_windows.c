/* tw_windows.c - im2col of dense convolutions: windows widened from 8 to 16 bits. A file of its own, so that these loops are
 * not inlined where registers are scarce.
 *
 * Taps in the padding hold the input's zero point, whose products the biases of the stream subtract.
 */
#include "tw_windows.h"

#include <stddef.h>

#include "tw_dsp.h"

/* Widens quads of one window from any address; returns where its next quad goes. */
static inline uint32_t *widen(uint32_t *to, const int8_t *from, int32_t quads)
{
    for (int32_t i = quads >> 1; i > 0; --i) {
        const uint32_t first = tw_word(from), second = tw_word(from + 4);
        to[0] = tw_sxtb16(first);
        to[2] = tw_sxtb16_odd(first);
        to[4] = tw_sxtb16(second);
        to[6] = tw_sxtb16_odd(second);
        to += 8;
        from += 8;
    }
    if (quads & 1) {
        const uint32_t word = tw_word(from);
        to[0] = tw_sxtb16(word);
        to[2] = tw_sxtb16_odd(word);
        to += 4;
    }
    return to;
}

/* Fills quads of one window with `value`; returns where its next quad goes. */
static uint32_t *fill(uint32_t *to, int32_t value, int32_t quads)
{
    const uint32_t both = tw_lanes(value, value);
    for (int32_t i = quads; i > 0; --i) {
        to[0] = both;
        to[2] = both;
        to += 4;
    }
    return to;
}

/* Takes a row of a window: widens its quads, copies its tail to `rests`. */
static inline uint32_t *take(uint32_t *to, const int8_t *from, int32_t quads, int32_t rest, int8_t *rests)
{
    to = widen(to, from, quads);
    if (rest > 0) {
        from += 4 * quads;
        rests[0] = from[0];
        if (rest > 1) {
            rests[1] = from[1];
        }
        if (rest > 2) {
            rests[2] = from[2];
        }
    }
    return to;
}

/* Takes a row of a window with `before` and `after` columns of padding; its other columns begin at `from`. */
static uint32_t *take_part(const tw_windows *windows, uint32_t *to, const int8_t *from, int32_t before, int32_t after,
                           int8_t *rests)
{
    const tw_conv *p = windows->p;
    const int32_t c = p->in.c, zero = p->in_zero, inside = p->kernel.w - before - after;
    if (windows->row == NULL) {
        const int32_t pixel = c / 4;
        to = fill(to, zero, before * pixel);
        to = widen(to, from, inside * pixel);
        return fill(to, zero, after * pixel);
    }
    int8_t *row = windows->row;
    for (int32_t i = before * c; i > 0; --i) {
        *row++ = (int8_t)zero;
    }
    for (int32_t i = inside * c; i > 0; --i) {
        *row++ = *from++;
    }
    for (int32_t i = after * c; i > 0; --i) {
        *row++ = (int8_t)zero;
    }
    return take(to, windows->row, windows->quads, windows->rest, rests);
}

/* Widens a quad of both windows. */
static inline void widen_four(uint32_t *to, const int8_t *from_0, const int8_t *from_1)
{
    const uint32_t word_0 = tw_word(from_0), word_1 = tw_word(from_1);
    to[0] = tw_sxtb16(word_0);
    to[1] = tw_sxtb16(word_1);
    to[2] = tw_sxtb16_odd(word_0);
    to[3] = tw_sxtb16_odd(word_1);
}

/* Widens quads of both windows; returns where the next quad goes. */
static inline uint32_t *widen_both(uint32_t *to, const int8_t *from_0, const int8_t *from_1, int32_t quads)
{
    for (int32_t i = quads; i > 0; --i) {
        widen_four(to, from_0, from_1);
        from_0 += 4;
        from_1 += 4;
        to += 4;
    }
    return to;
}

/* A tw_windows_pair for rows of whole quads. */
static void pair_of_words(const tw_windows *windows, int32_t offset, int32_t next)
{
    uint32_t *to = windows->wide;
    for (int32_t row = windows->rows; row > 0; --row) {
        const int8_t *from = windows->data + offset;
        to = widen_both(to, from, from + next, windows->quads);
        offset = tw_down(offset, windows->step, windows->ring);
    }
}

/* A tw_windows_pair for three rows of nine inputs: 3x3 windows of three channels, as first layers have. */
static void pair_of_nines(const tw_windows *windows, int32_t offset, int32_t next)
{
    uint32_t *to = windows->wide, ninths[2][3];
    for (int32_t row = 0; row < windows->rows; ++row) {
        const int8_t *from_0 = windows->data + offset, *from_1 = from_0 + next;
        widen_four(to, from_0, from_1);
        widen_four(to + 4, from_0 + 4, from_1 + 4);
        to += 8;
        ninths[0][row] = (uint32_t)from_0[8];
        ninths[1][row] = (uint32_t)from_1[8];
        offset = tw_down(offset, windows->step, windows->ring);
    }
    to[0] = tw_pkhbt(ninths[0][0], ninths[0][2]);
    to[1] = tw_pkhbt(ninths[1][0], ninths[1][2]);
    to[2] = ninths[0][1] & 0xFFFFu;
    to[3] = ninths[1][1] & 0xFFFFu;
}

/* A tw_windows_pair for any windows. */
static void pair_of_any(const tw_windows *windows, int32_t offset, int32_t next)
{
    uint32_t *to = windows->wide;
    const int8_t *const data = windows->data;
    const int32_t quads = windows->quads, rest = windows->rest, step = windows->step, ring = windows->ring;
    const int32_t last = windows->last;
    int8_t *rests = windows->rests;
    int32_t row = windows->rows;
    for (;;) {
        const int8_t *from = data + offset;
        to = widen_both(to, from, from + next, quads);
        from += 4 * quads;
        for (int32_t i = 0; i < rest; ++i) {
            rests[4 * last] = from[next];
            *rests++ = *from++;
        }
        if (--row == 0) {
            break;
        }
        offset = tw_down(offset, step, ring);
    }
    widen_both(to, windows->rests, windows->rests + 4 * last, last);
}

void tw_windows_inside(const tw_windows *windows, int32_t offset, int32_t slot)
{
    uint32_t *to = windows->wide + slot;
    const int8_t *const data = windows->data;
    const int32_t quads = windows->quads, rest = windows->rest, step = windows->step, ring = windows->ring;
    int8_t *rests = windows->rests + 4 * slot * windows->last;
    int32_t row = windows->rows;
    for (;;) {
        to = take(to, data + offset, quads, rest, rests);
        rests += rest;
        if (--row == 0) {
            break;
        }
        offset = tw_down(offset, step, ring);
    }
    widen(to, windows->rests + 4 * slot * windows->last, windows->last);
}

void tw_windows_across(const tw_windows *windows, const tw_window *window, int32_t left, int32_t slot)
{
    const tw_conv *p = windows->p;
    const tw_span cols = tw_inside(left, p->kernel.w, 1, p->in.w);
    const int32_t first = window->row_tap / p->kernel.w, after = p->kernel.w - cols.end, rest = windows->rest;
    int32_t offset = window->row_offset + (left + cols.begin) * p->in.c;
    uint32_t *to = windows->wide + slot;
    int8_t *rests = windows->rests + 4 * slot * windows->last;

    for (int32_t row = 0; row < p->kernel.h; ++row) {
        if (row >= first && row < first + window->rows && cols.begin < cols.end) {
            to = take_part(windows, to, windows->data + offset, cols.begin, after, rests);
            offset = tw_down(offset, windows->step, windows->ring);
        } else {
            to = take_part(windows, to, windows->data, p->kernel.w, 0, rests);
        }
        rests += rest;
    }
    widen(to, windows->rests + 4 * slot * windows->last, windows->last);
}

/* Whether some window reaches into the padding. */
static int has_padding(const tw_conv *p)
{
    return p->pad.h > 0 || p->pad.w > 0 || (p->out.h - 1) * p->stride.h - p->pad.h + p->kernel.h > p->in.h ||
           (p->out.w - 1) * p->stride.w - p->pad.w + p->kernel.w > p->in.w;
}

int32_t tw_windows_quads(const tw_conv *p)
{
    const int32_t run = p->kernel.w * p->in.c;
    return p->kernel.h * (run / 4) + (p->kernel.h * (run % 4) + 3) / 4;
}

int32_t tw_windows_set(tw_windows *windows, const tw_conv *p, const tw_view *in, void *scratch)
{
    const int32_t run = p->kernel.w * p->in.c, rest = run % 4;
    const int32_t last = (p->kernel.h * rest + 3) / 4, total = tw_windows_quads(p);
    windows->p = p;
    windows->data = (const int8_t *)in->data;
    windows->step = in->row_stride;
    windows->ring = in->ring_height * in->row_stride;
    windows->rows = p->kernel.h;
    windows->quads = run / 4;
    windows->rest = rest;
    windows->last = last;
    windows->pair = rest == 0 ? pair_of_words : p->kernel.h == 3 && run == 9 ? pair_of_nines : pair_of_any;
    windows->wide = (uint32_t *)scratch;
    windows->row = NULL;
    windows->rests = (int8_t *)(windows->wide + 4 * total);
    if (p->in.c % 4 != 0 && has_padding(p)) {
        windows->row = windows->rests;
        windows->rests += (run + 3) / 4 * 4;
    }
    /* zeros after the tails; for the second window even without tails, since there may be no second pixel */
    if (last > 0) {
        tw_put_word(windows->rests + 4 * (last - 1), 0);
    }
    tw_put_word(windows->rests + 8 * last - 4, 0);
    return total;
}
