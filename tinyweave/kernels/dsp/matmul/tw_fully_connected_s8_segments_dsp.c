/* tw_fully_connected_s8_segments_dsp.c - int8 dense layer of long rows with the Arm DSP extension: a sum is added up from those of
 * segments, because that of the whole row would overflow an accumulator. tw_fully_connected_dsp.h has the layout of the weights.
 */
#include "tw_fully_connected_dsp.h"

#define LANE_WEIGHTS 2
#define LANE_OFFSET 0
#include "tw_fully_connected_dsp_loop.h"

/* Adds the sums of `quads` times four inputs with eight filters to `totals`; returns the next word of the stream. */
static const uint32_t *add_sums(const int8_t *x, int32_t quads, const uint32_t *stream, int32_t *totals)
{
    static const int32_t zeros[TW_FILTERS] = {0};
    int32_t sums[TW_FILTERS];
    stream = products(x, quads, stream, zeros, sums);
    for (int32_t i = 0; i < TW_FILTERS; ++i) {
        totals[i] = tw_signed((uint32_t)totals[i] + (uint32_t)sum_of(sums + (i & ~3), i & 3));
    }
    return stream;
}

/* Computes `count` outputs from that of filter `unit` on. */
static void put_totals(const tw_dense *p, int32_t unit, int32_t count, const int32_t *totals, int8_t *to)
{
    for (int32_t i = 0; i < count; ++i) {
        to[unit + i] = rescale(totals[i], factor_of(p, p->per_channel ? unit + i : 0), p->out_zero);
    }
}

/* Computes the outputs of a row. */
static void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to)
{
    const tw_dense *p = &params->dense;
    const int32_t depth = p->in.c, quads = depth / 4, rest = depth % 4;
    const int32_t segment = tw_signed(params->stream[0]);
    const uint32_t *stream = params->stream + 1;
    for (int32_t unit = 0; unit < p->out.c; unit += TW_FILTERS) {
        int32_t totals[TW_FILTERS];
        memcpy(totals, stream, sizeof totals);
        stream += TW_FILTERS;
        for (int32_t done = 0; done < quads; done += segment) {
            stream = add_sums(from + 4 * done, tw_min(segment, quads - done), stream, totals);
        }
        if (rest > 0) {
            int8_t last[4] = {0, 0, 0, 0};
            for (int32_t i = 0; i < rest; ++i) {
                last[i] = from[4 * quads + i];
            }
            stream = add_sums(last, 1, stream, totals);
        }
        put_totals(p, unit, tw_min(TW_FILTERS, p->out.c - unit), totals, to);
    }
    tw_clamp_all(to, p->out.c, p->out_min, p->out_max);
}

/* Adds the products of quads [first, end) of a flattened map, which are at `from`, to the sums of eight filters, whose stream
 * begins with their biases. `cut` is the first multiple of `segment` above `first`. */
static inline void add_group(const int8_t *from, int32_t first, int32_t end, int32_t cut, int32_t segment, const uint32_t *stream,
                             int32_t *totals)
{
    for (int32_t i = 0; first == 0 && i < TW_FILTERS; ++i) {
        totals[i] = tw_signed(stream[i]);
    }
    stream += TW_FILTERS + 8 * first;
    while (first < end) {
        const int32_t quads = tw_min(cut, end) - first;
        stream = add_sums(from, quads, stream, totals);
        from += 4 * quads;
        first += quads;
        cut += segment;
    }
}

/* Adds the products of quads [first, end) of a flattened map, which are at `from`, to the sums of all filters. */
static void add_row(const tw_fully_connected_dsp *params, const int8_t *from, int32_t first, int32_t end, int32_t *sums)
{
    const int32_t units = params->dense.out.c, group = TW_FILTERS + 2 * params->dense.in.c;
    const int32_t segment = tw_signed(params->stream[0]), cut = (first / segment + 1) * segment;
    const uint32_t *stream = params->stream + 1;
    int32_t unit = 0;
    for (; unit + TW_FILTERS <= units; unit += TW_FILTERS, stream += group) {
        add_group(from, first, end, cut, segment, stream, sums + unit);
    }
    if (unit < units) {
        int32_t last[TW_FILTERS] = {0};
        for (int32_t i = 0; first > 0 && unit + i < units; ++i) {
            last[i] = sums[unit + i];
        }
        add_group(from, first, end, cut, segment, stream, last);
        for (int32_t i = 0; unit + i < units; ++i) {
            sums[unit + i] = last[i];
        }
    }
}

void tw_fully_connected_s8_segments_dsp_rows(const tw_fully_connected_dsp *p, tw_view in, void *out, tw_range range,
                                             int32_t *sums)
{
    const tw_dense *const dense = &p->dense;
    const int32_t quads = in.row_stride / 4;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        add_row(p, (const int8_t *)tw_pixel(&in, y, 0, 0), y * quads, (y + 1) * quads, sums);
    }
    if (range.row_end * in.row_stride == dense->in.c) {
        put_totals(dense, 0, dense->out.c, sums, (int8_t *)out);
        tw_clamp_all((int8_t *)out, dense->out.c, dense->out_min, dense->out_max);
    }
}

TW_FORMS(tw_fully_connected_s8_segments_dsp, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out),
         p->dense.out, all_rows(p, in, out, range, all_units))
