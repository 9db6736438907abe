/* tw_fully_connected_s8_mve.c - int8 dense layer with the Arm MVE extension. tw_fully_connected_s8_mve.h has the layers, the
 * layout of the weights and the cost. */
#include "tw_fully_connected_s8_mve.h"

#include "tw_mve_dots.h"

#define FILTERS 4

/* sums += the products of `depth` inputs with four filters, `filter` bytes apart; with fewer `filters` the last one is repeated. */
static void products(const int8_t *x, const int8_t *weights, int32_t filter, int32_t depth, int32_t filters, int32_t *sums)
{
    const int8_t *w_0 = weights, *w_1 = filters > 1 ? w_0 + filter : w_0;
    const int8_t *w_2 = filters > 2 ? w_1 + filter : w_1, *w_3 = filters > 3 ? w_2 + filter : w_2;
    int32_t sum_0 = sums[0], sum_1 = sums[1], sum_2 = sums[2], sum_3 = sums[3];
    TW_MVE_DOTS(x, 16, w_0, w_1, w_2, w_3, 16, depth, sum_0, sum_1, sum_2, sum_3);
    sums[0] = sum_0;
    sums[1] = sum_1;
    sums[2] = sum_2;
    sums[3] = sum_3;
}

#if TW_HAS_MVE

/* Computes the outputs of filter `unit` and the next three. */
static void rescale(const tw_fully_connected *p, int32_t unit, const int32_t *sums, int8_t *to)
{
    uint32x4x2_t factor; /* val[0]: low words, val[1]: high words */
    int32x4_t shift;
    if (p->per_channel) {
        factor = vld2q_u32((const uint32_t *)(p->multiplier + unit));
        shift = vldrbq_s32(p->shift + unit);
    } else {
        factor.val[0] = vdupq_n_u32((uint32_t)p->multiplier[0]);
        factor.val[1] = vdupq_n_u32((uint32_t)(p->multiplier[0] >> 32));
        shift = vdupq_n_s32(p->shift[0]);
    }
    /* the high word of magnitude * factor / 2^32, with the carry of the low words */
    const int32x4_t sum = vldrwq_s32(sums), sign = vshrq_n_s32(sum, 31);
    const uint32x4_t magnitude = vreinterpretq_u32_s32(vabsq_s32(sum));
    const uint32x4_t low = vmulq_u32(magnitude, factor.val[1]), below = vmulhq_u32(magnitude, factor.val[0]);
    const uint32x4_t high = vaddq_u32(vmulhq_u32(magnitude, factor.val[1]), vshrq_n_u32(vhaddq_u32(low, below), 31));
    const int32x4_t rounded = vreinterpretq_s32_u32(vrshlq_u32(high, vaddq_n_s32(shift, 1)));
    const int32x4_t scaled = vsubq_s32(veorq_s32(rounded, sign), sign);
    const int32x4_t out = vaddq_n_s32(scaled, p->out_zero);
    vstrbq_s32(to, vminq_s32(vmaxq_s32(out, vdupq_n_s32(p->out_min)), vdupq_n_s32(p->out_max)));
}

#else

static void rescale(const tw_fully_connected *p, int32_t unit, const int32_t *sums, int8_t *to)
{
    for (int32_t i = 0; i < FILTERS; ++i) {
        const int32_t index = p->per_channel ? unit + i : 0;
        const int32_t scaled = tw_requantize_once(sums[i], p->multiplier[index], p->shift[index]);
        to[i] = (int8_t)tw_clamp(scaled + p->out_zero, p->out_min, p->out_max);
    }
}

#endif

void tw_fully_connected_s8_mve_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth = p->in.c, units = p->out.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, depth);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, units);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int8_t *weights = p->weights;
            int32_t unit = 0;
            for (; unit + FILTERS <= units; unit += FILTERS) {
                int32_t sums[FILTERS] = {p->bias[unit], p->bias[unit + 1], p->bias[unit + 2], p->bias[unit + 3]};
                products(from, weights, depth, depth, FILTERS, sums);
                rescale(p, unit, sums, to + unit);
                weights += FILTERS * depth;
            }
            if (unit < units) {
                int32_t sums[FILTERS] = {0, 0, 0, 0};
                products(from, weights, depth, depth, units - unit, sums);
                for (int32_t i = 0; unit + i < units; ++i) {
                    to[unit + i] = tw_fully_connected_rescale(p, unit + i, sums[i]);
                }
            }
            to += units;
            from += depth;
        }
    }
}

TW_WHOLE_FORM(tw_fully_connected_s8_mve, tw_fully_connected, tw_whole(in, p->in), tw_whole(out, p->out), p->out)

void tw_fully_connected_s8_mve_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t row = in.row_stride, units = p->out.c, fours = units / FILTERS * FILTERS;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0), *const weights = p->weights + y * row;
        for (int32_t unit = 0; y == 0 && unit < units; ++unit) {
            sums[unit] = unit < fours ? p->bias[unit] : 0; /* tw_fully_connected_rescale adds the others */
        }
        for (int32_t unit = 0; unit < fours; unit += FILTERS) {
            products(from, weights + unit * p->in.c, p->in.c, row, FILTERS, sums + unit);
        }
        if (fours < units) {
            int32_t last[FILTERS] = {0, 0, 0, 0};
            const size_t bytes = (size_t)(units - fours) * sizeof *sums;
            memcpy(last, sums + fours, bytes);
            products(from, weights + fours * p->in.c, p->in.c, row, units - fours, last);
            memcpy(sums + fours, last, bytes);
        }
    }
    if (range.row_end * row == p->in.c) {
        int8_t *const to = (int8_t *)out;
        for (int32_t unit = 0; unit < fours; unit += FILTERS) {
            rescale(p, unit, sums + unit, to + unit);
        }
        for (int32_t unit = fours; unit < units; ++unit) {
            to[unit] = tw_fully_connected_rescale(p, unit, sums[unit]);
        }
    }
}
