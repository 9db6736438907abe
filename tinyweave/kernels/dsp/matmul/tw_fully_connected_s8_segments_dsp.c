/* tw_fully_connected_s8_segments_dsp.c - int8 dense layer of long rows with the Arm DSP extension: a sum is added up from those of
 * segments, because that of the whole row would overflow an accumulator. tw_fully_connected_dsp.h has the layout of the weights.
 */
#include "tw_fully_connected_dsp.h"

#include "tw_fully_connected_s8_steps.h"

#define LANE_WEIGHTS 2
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

/* Computes the outputs of a row. */
static void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to)
{
    const tw_fully_connected *p = &params->dense;
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
        for (int32_t i = 0; i < TW_FILTERS && unit + i < p->out.c; ++i) {
            to[unit + i] = rescale(totals[i], factor_of(p, p->per_channel ? unit + i : 0), p->out_zero);
        }
    }
    tw_clamp_all(to, p->out.c, p->out_min, p->out_max);
}

TW_FORMS(tw_fully_connected_s8_segments_dsp, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out),
         p->dense.out, all_rows(p, in, out, range, all_units))
