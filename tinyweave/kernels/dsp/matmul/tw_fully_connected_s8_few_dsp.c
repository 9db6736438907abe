/* tw_fully_connected_s8_few_dsp.c - int8 dense layer with at most four outputs, with the Arm DSP extension.
 * tw_fully_connected_dsp.h has the layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"

#include "tw_few_dsp.h"
#include "tw_fully_connected_dsp_rows.h"

/* Rescales all sums and writes the outputs. */
static inline void put(const tw_fully_connected *p, const int32_t *sums, int8_t *to)
{
    for (int32_t i = 0; i < p->out.c; ++i) {
        to[i] = (int8_t)tw_clamp(rescale(sums[i], factor_of(p, p->per_channel ? i : 0), p->out_zero), p->out_min, p->out_max);
    }
}

/* Computes the outputs of a row. */
static inline void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to)
{
    const tw_fully_connected *p = &params->dense;
    int32_t sums[TW_FEW];
    tw_few_sums(from, p->in.c, params->stream, p->out.c, sums);
    put(p, sums, to);
}

TW_FORMS(tw_fully_connected_s8_few_dsp, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out),
         p->dense.out, all_rows(p, in, out, range, all_units))

void tw_fully_connected_s8_few_dsp_rows(const tw_fully_connected_dsp *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t units = p->dense.out.c, row = in.row_stride;
    const uint32_t *stream = p->stream + units + range.row_begin * row / 2 * units;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0);
        int32_t totals[TW_FEW] = {0, 0, 0, 0};
        for (int32_t i = 0; i < units; ++i) {
            totals[i] = y == 0 ? tw_signed(p->stream[i]) : sums[i];
        }
        stream = add_products(from, from + row, stream, units, totals);
        for (int32_t i = 0; i < units; ++i) {
            sums[i] = totals[i];
        }
    }
    if (range.row_end * row == p->dense.in.c) {
        put(&p->dense, sums, (int8_t *)out);
    }
}
