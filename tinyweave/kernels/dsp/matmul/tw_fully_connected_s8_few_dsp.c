/* tw_fully_connected_s8_few_dsp.c - int8 dense layer with at most four outputs, with the Arm DSP extension.
 * tw_fully_connected_dsp.h has the layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"

#include "tw_few_dsp.h"
#include "tw_fully_connected_dsp_rows.h"

/* Computes the outputs of a row. */
static inline void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to)
{
    const tw_fully_connected *p = &params->dense;
    const int32_t units = p->out.c;
    int32_t sums[TW_FEW];
    tw_few_sums(from, p->in.c, params->stream, units, sums);
    for (int32_t i = 0; i < units; ++i) {
        to[i] = (int8_t)tw_clamp(rescale(sums[i], factor_of(p, p->per_channel ? i : 0), p->out_zero), p->out_min, p->out_max);
    }
}

TW_FORMS(tw_fully_connected_s8_few_dsp, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out),
         p->dense.out, all_rows(p, in, out, range, all_units))
