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

/* Takes a row of a window of which `inside` columns, those from `before` on, are inside the map; these begin at `from`. The
 * bytes of windows->row for the other columns hold the zero point. */
static uint32_t *take_part(const tw_windows *windows, uint32_t *to, const int8_t *from, int32_t before, int32_t inside,
                           int8_t *rests)
{
    const tw_conv_shape *p = windows->p;
    const int32_t c = p->in.c, pixel = c / 4;
    if (inside < p->kernel.w) {
        if (windows->row == NULL) {
            to = fill(to, p->in_zero, before * pixel);
            to = widen(to, from, inside * pixel);
            return fill(to, p->in_zero, (p->kernel.w - before - inside) * pixel);
        }
        int8_t *row = windows->row + before * c;
        int32_t left = inside * c;
        for (; left >= 4; left -= 4, row += 4, from += 4) {
            tw_put_word(row, tw_word(from));
        }
        for (; left > 0; --left) {
            *row++ = *from++;
        }
        from = windows->row;
    }
    return take(to, from, windows->quads, windows->rest, rests);
}

/* Widens a quad of both windows. Four STR take fewer cycles than an STM. */
static inline void widen_four(uint32_t *to, const int8_t *from_0, const int8_t *from_1)
{
    const uint32_t a = tw_word(from_0), b = tw_word(from_1);
    to[0] = tw_sxtb16(a);
    to[1] = tw_sxtb16(b);
    to[2] = tw_sxtb16_odd(a);
    to[3] = tw_sxtb16_odd(b);
}

/* Widens quads of both windows; returns where the next quad goes. */
static inline uint32_t *widen_both(uint32_t *to, const int8_t *from_0, const int8_t *from_1, int32_t quads)
{
    for (int32_t i = quads; i > 0; --i, to += 4, from_0 += 4, from_1 += 4) {
        widen_four(to, from_0, from_1);
    }
    return to;
}

/* A tw_windows_pair for rows of whole quads. */
static void pair_of_words(const tw_windows *windows, int32_t offset, int32_t next)
{
    uint32_t *to = windows->wide;
    const int8_t *const data = windows->data;
    const int32_t quads = windows->quads;
    for (int32_t row = windows->rows;;) {
        to = widen_both(to, data + offset, data + offset + next, quads);
        if (--row == 0) {
            break;
        }
        offset = tw_down(offset, windows->step, windows->ring);
    }
}

/* Widens a row of nine inputs of both windows; its last input goes to a half of the words at `last`. */
static inline uint32_t *nine_inputs(uint32_t *to, const int8_t *from, int32_t next, int16_t *last)
{
    const int8_t *from_1 = from + next;
    const int16_t ninth_0 = from[8], ninth_1 = from_1[8];
    TW_COPY(last, &ninth_0, sizeof ninth_0);
    TW_COPY(last + 2, &ninth_1, sizeof ninth_1);
    widen_four(to, from, from_1);
    widen_four(to + 4, from + 4, from_1 + 4);
    return to + 8;
}

/* A tw_windows_pair for three rows of nine inputs: 3x3 windows of three channels, as first layers have. */
static void pair_of_nines(const tw_windows *windows, int32_t offset, int32_t next)
{
    uint32_t *to = windows->wide;
    int16_t *const last = (int16_t *)(to + 24); /* of inputs (8, 26) of both windows, then of inputs 17; the others are 0 */
    const int8_t *const data = windows->data;
    const int32_t step = windows->step, ring = windows->ring;
    to = nine_inputs(to, data + offset, next, last);
    offset = tw_down(offset, step, ring);
    to = nine_inputs(to, data + offset, next, last + 4);
    nine_inputs(to, data + tw_down(offset, step, ring), next, last + 1);
}

/* A tw_windows_pair for rows with a rest. */
static void pair_of_any(const tw_windows *windows, int32_t offset, int32_t next)
{
    uint32_t *to = windows->wide;
    const int8_t *const data = windows->data;
    const int32_t quads = windows->quads, rest = windows->rest, step = windows->step, ring = windows->ring;
    const int32_t last = windows->last, tail = 4 * last;
    int8_t *rests = windows->rests;
    int32_t row = windows->rows;
    for (;;) {
        const int8_t *from = data + offset;
        to = widen_both(to, from, from + next, quads);
        from += 4 * quads;
        const int8_t *const end = from + rest;
        do {
            rests[tail] = from[next];
            *rests++ = *from++;
        } while (from != end);
        if (--row == 0) {
            break;
        }
        offset = tw_down(offset, step, ring);
    }
    widen_both(to, windows->rests, windows->rests + tail, last);
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
    const tw_conv_shape *p = windows->p;
    const tw_span cols = tw_inside(left, p->kernel.w, 1, p->in.w);
    const int32_t first = window->row_tap / p->kernel.w, inside = cols.end - cols.begin, rest = windows->rest;
    int32_t offset = window->row_offset + (left + cols.begin) * p->in.c;
    uint32_t *to = windows->wide + slot;
    int8_t *rests = windows->rests + 4 * slot * windows->last;
    const int8_t zero = (int8_t)p->in_zero;

    if (windows->row != NULL) {
        for (int32_t i = 0; i < p->kernel.w * p->in.c; ++i) {
            windows->row[i] = zero;
        }
    }
    for (int32_t row = 0; row < p->kernel.h; ++row, rests += rest) {
        if (row >= first && row < first + window->rows && inside > 0) {
            to = take_part(windows, to, windows->data + offset, cols.begin, inside, rests);
            offset = tw_down(offset, windows->step, windows->ring);
            continue;
        }
        to = fill(to, zero, windows->quads);
        for (int32_t i = 0; i < rest; ++i) {
            rests[i] = zero;
        }
    }
    widen(to, windows->rests + 4 * slot * windows->last, windows->last);
}

/* Whether some window reaches into the padding. */
static int has_padding(const tw_conv_shape *p)
{
    return p->pad.h > 0 || p->pad.w > 0 || (p->out.h - 1) * p->stride.h - p->pad.h + p->kernel.h > p->in.h ||
           (p->out.w - 1) * p->stride.w - p->pad.w + p->kernel.w > p->in.w;
}

int32_t tw_windows_quads(const tw_conv_shape *p)
{
    const int32_t run = p->kernel.w * p->in.c;
    return p->kernel.h * (run / 4) + (p->kernel.h * (run % 4) + 3) / 4;
}

int32_t tw_windows_set(tw_windows *windows, const tw_conv_shape *p, const tw_view *in, void *scratch)
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
    windows->wide[4 * total - 2] = windows->wide[4 * total - 1] = 0; /* halves that pair_of_nines does not write */
    return total;
}
