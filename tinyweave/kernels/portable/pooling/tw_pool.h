/* tw_pool.h - what pooling kernels share: parameters and loops; input and output share their quantisation. */
#ifndef TW_POOL_H
#define TW_POOL_H

#include "tw_sums.h"

typedef struct {
    tw_shape in, out;
    tw_size kernel, stride;
    tw_size pad;               /* rows above, columns left of the map; every window must hold a part of the map */
    int32_t away_from;         /* averages round halves away from it: 0, or -128 where the model was uint8 */
    int32_t out_min, out_max;  /* the fused activation's clamp, within the type of the output */
} tw_pool;

/* The pixels of a window that lie inside the map. */
typedef struct {
    int32_t offset;      /* of the first one in the view */
    int32_t rows, cols;  /* how many */
    int32_t pixel;       /* bytes */
} tw_pool_window;

/* How the next value of a window is joined to those before; what the output is of all of them. Inlined with functions that are
 * known, so that each kernel gets loops of its own. */
typedef int32_t tw_pool_joining(int32_t joined, int32_t value);
typedef int32_t tw_pool_output(const tw_pool *p, int32_t joined, int32_t count);

/* Types of the values. */
enum { TW_POOL_S8, TW_POOL_S16 };

/* A channel of the pixel at `from`. */
TW_INLINE int32_t tw_pool_value(const int8_t *from, int32_t channel, int type)
{
    return type == TW_POOL_S16 ? ((const int16_t *)(const void *)from)[channel] : from[channel];
}

/* A window's values of a channel, joined to `joined`. */
TW_INLINE int32_t tw_pool_join(const tw_view *in, const tw_pool_window *window, int32_t channel, int type, int32_t joined,
                               tw_pool_joining *join)
{
    const int32_t ring = in->ring_height * in->row_stride;
    int32_t offset = window->offset;
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t col = 0; col < window->cols; ++col) {
            joined = join(joined, tw_pool_value(from, channel, type));
            from += window->pixel;
        }
        offset = tw_down(offset, in->row_stride, ring);
    }
    return joined;
}

/* Those of four neighbouring channels, each joined to `begin`. */
TW_INLINE void tw_pool_join_four(const tw_view *in, const tw_pool_window *window, int32_t channel, int type, int32_t *joined,
                                 int32_t begin, tw_pool_joining *join)
{
    const int32_t ring = in->ring_height * in->row_stride;
    int32_t first = begin, second = begin, third = begin, fourth = begin;
    int32_t offset = window->offset + channel * (type == TW_POOL_S16 ? 2 : 1);
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t col = 0; col < window->cols; ++col) {
            first = join(first, tw_pool_value(from, 0, type));
            second = join(second, tw_pool_value(from, 1, type));
            third = join(third, tw_pool_value(from, 2, type));
            fourth = join(fourth, tw_pool_value(from, 3, type));
            from += window->pixel;
        }
        offset = tw_down(offset, in->row_stride, ring);
    }
    joined[0] = first;
    joined[1] = second;
    joined[2] = third;
    joined[3] = fourth;
}

/* Computes the output of one pixel, all channels, at `to`; window: the pixels of its window that lie inside the map. */
typedef void tw_pool_pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to);

/* Calls `pixel` for each pixel of a range of the output, of values of `bytes` bytes. */
TW_INLINE void tw_pool_each(const tw_pool *p, tw_view in, tw_view out, tw_range range, int32_t bytes, tw_pool_pixel *pixel)
{
    tw_pool_window window;
    window.pixel = p->in.c * bytes;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, window.pixel);
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        const int32_t row_offset = tw_offset(&in, top + rows.begin, 0, window.pixel);
        window.rows = rows.end - rows.begin;
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w, begin = tw_max(left, 0);
            window.cols = tw_min(left + p->kernel.w, p->in.w) - begin;
            window.offset = row_offset + begin * window.pixel;
            pixel(p, &in, &window, to);
            to += window.pixel;
        }
    }
}

/* The range of the output. */
TW_INLINE void tw_pool_over(const tw_pool *p, tw_view in, tw_view out, tw_range range, int type, int32_t begin,
                            tw_pool_joining *join, tw_pool_output *output)
{
    const int32_t channels = p->in.c;
    tw_pool_window window;
    window.pixel = type == TW_POOL_S16 ? 2 * channels : channels;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, window.pixel);
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        window.rows = rows.end - rows.begin;
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int32_t left = x * p->stride.w - p->pad.w;
            const tw_span cols = tw_inside(left, p->kernel.w, 1, p->in.w);
            window.cols = cols.end - cols.begin;
            window.offset = tw_offset(&in, top + rows.begin, left + cols.begin, window.pixel);
            const int32_t count = window.rows * window.cols;
            int32_t joined[4];
            for (int32_t channel = 0, at_once; channel < channels; channel += at_once) {
                if (channel <= channels - 4) {
                    at_once = 4;
                    tw_pool_join_four(&in, &window, channel, type, joined, begin, join);
                } else {
                    at_once = 1;
                    joined[0] = tw_pool_join(&in, &window, channel, type, begin, join);
                }
                for (int32_t i = 0; i < at_once; ++i) {
                    const int32_t value = output(p, joined[i], count);
                    if (type == TW_POOL_S16) {
                        *(int16_t *)(void *)to = (int16_t)value;
                        to += 2;
                    } else {
                        *to++ = (int8_t)value;
                    }
                }
            }
        }
    }
}

/* The average of `count` values, rounded half away from zero. */
static inline int32_t tw_pool_mean(int32_t sum, int32_t count)
{
    const int32_t sign = sum >> 31, half = (int32_t)((uint32_t)count >> 1);
    return (sum + (half ^ sign) - sign) / count;
}

/* The int8 average of `count` values; sum: less away_from for each. */
static inline int8_t tw_pool_average(const tw_pool *p, int32_t sum, int32_t count)
{
    return (int8_t)tw_clamp(tw_pool_mean(sum, count) + p->away_from, p->out_min, p->out_max);
}

static inline int32_t tw_plus(int32_t a, int32_t b) { return a + b; }

/* The average over rows as they come: adds a range of whole rows to sums[c], which row 0 sets up, and writes out with the last
 * row. */
TW_INLINE void tw_pool_average_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t count = p->in.h * p->in.w;
    tw_sums_add(sums, p->in.c, &in, range, -p->away_from * count);
    if (range.row_end == p->in.h) {
        for (int32_t channel = 0; channel < p->in.c; ++channel) {
            ((int8_t *)out)[channel] = tw_pool_average(p, sums[channel], count);
        }
    }
}

/* Each a tw_pool_output. */
static inline int32_t tw_pool_average_of(const tw_pool *p, int32_t sum, int32_t count)
{
    return tw_pool_average(p, sum - p->away_from * count, count);
}

static inline int32_t tw_pool_average_s16_of(const tw_pool *p, int32_t sum, int32_t count)
{
    return tw_clamp(tw_pool_mean(sum, count), p->out_min, p->out_max);
}

static inline int32_t tw_pool_highest_of(const tw_pool *p, int32_t highest, int32_t count)
{
    (void)count;
    return tw_clamp(highest, p->out_min, p->out_max);
}

/* Defines both forms of an int8 kernel by PART, as TW_FORMS; of a maximum in plain C; the three forms of an average in plain C. */
#define TW_POOL_FORMS(kernel, PART) TW_FORMS(kernel, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out, PART)
#define TW_MAX_POOL_FORMS(kernel) \
    TW_POOL_FORMS(kernel, tw_pool_over(p, in, out, range, TW_POOL_S8, -128, tw_max, tw_pool_highest_of))
#define TW_AVERAGE_POOL_FORMS(kernel)                                                                  \
    TW_POOL_FORMS(kernel, tw_pool_over(p, in, out, range, TW_POOL_S8, 0, tw_plus, tw_pool_average_of)) \
    void kernel##_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)         \
    {                                                                                                  \
        tw_pool_average_rows(p, in, out, range, sums);                                                 \
    }

/* int8 average over a window. Divides by the number of positions inside the map, rounded half away from zero. Needs no
 * scratch. The _rows form is for one window that covers the whole map. */
TW_DECLARE_ROW_FORMS(tw_average_pool_2d_s8, tw_pool);

/* The same with less code, and slower. */
TW_DECLARE_FORMS(tw_average_pool_2d_s8_compact, tw_pool);

/* int8 maximum over a window. Needs no scratch. */
TW_DECLARE_FORMS(tw_max_pool_2d_s8, tw_pool);

/* The same on a Cortex-M3, with at least four channels. */
TW_DECLARE_FORMS(tw_max_pool_2d_s8_m3, tw_pool);

/* int16 average over a window of at most 65,535 positions. Needs no scratch. */
void tw_average_pool_2d_s16(const tw_pool *p, const void *in, void *out);

/* int16 maximum over a window. Needs no scratch. */
void tw_max_pool_2d_s16(const tw_pool *p, const void *in, void *out);

#endif
