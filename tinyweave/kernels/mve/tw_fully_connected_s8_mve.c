/* tw_fully_connected_s8_mve.c - int8 dense layer with the Arm MVE extension. tw_fully_connected_mve.h has the layers, the
 * layout of the weights and the cost. */
#include "tw_fully_connected_mve.h"

#include "tw_mve_dots.h"

#define FILTERS 4

/* sums += the products of `depth` inputs with four filters, `filter` bytes apart; with fewer `filters` the last one is
 * repeated. */
TW_NOT_INLINE void products(const int8_t *x, const int8_t *weights, int32_t filter, int32_t depth, int32_t filters,
                            int32_t *sums)
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

#define ALL 0xFFFF /* predicate of all lanes */

/* Computes the outputs of at most four filters from `unit` on, whose sums of products are the lanes of `sum`. `some` predicates
 * the lanes that exist: others are neither read nor written. */
static inline void rescale_vector(const tw_fully_connected *p, int32_t unit, int32x4_t sum, mve_pred16_t some, int8_t *to)
{
    uint32x4_t low_words, high_words; /* of the multipliers */
    int32x4_t shift;
    if (p->layer.per_channel) {
        const uint32x4_t places = vidupq_n_u32(0, 2);
        const uint32_t *const multipliers = (const uint32_t *)(p->layer.multiplier + unit);
        low_words = vldrwq_gather_shifted_offset_z_u32(multipliers, places, some);
        high_words = vldrwq_gather_shifted_offset_z_u32(multipliers + 1, places, some);
        shift = vldrbq_z_s32(p->layer.shift + unit, some);
    } else {
        low_words = vdupq_n_u32((uint32_t)p->layer.multiplier[0]);
        high_words = vdupq_n_u32((uint32_t)(p->layer.multiplier[0] >> 32));
        shift = vdupq_n_s32(p->layer.shift[0]);
    }
    /* the high word of magnitude * multiplier / 2^32, with the carry of the low words */
    sum = vaddq_s32(sum, vldrwq_z_s32(p->bias + unit, some));
    const int32x4_t sign = vshrq_n_s32(sum, 31);
    const uint32x4_t magnitude = vreinterpretq_u32_s32(vabsq_s32(sum));
    const uint32x4_t low = vmulq_u32(magnitude, high_words), below = vmulhq_u32(magnitude, low_words);
    const uint32x4_t high = vaddq_u32(vmulhq_u32(magnitude, high_words), vshrq_n_u32(vhaddq_u32(low, below), 31));
    const int32x4_t rounded = vreinterpretq_s32_u32(vrshlq_u32(high, vaddq_n_s32(shift, 1)));
    const int32x4_t out = vaddq_n_s32(vsubq_s32(veorq_s32(rounded, sign), sign), p->layer.out_zero);
    vstrbq_p_s32(to + unit, vminq_s32(vmaxq_s32(out, vdupq_n_s32(p->layer.out_min)), vdupq_n_s32(p->layer.out_max)), some);
}

static inline void rescale_filters(const tw_fully_connected *p, int32_t unit, const int32_t *sums, int32_t filters, int8_t *to)
{
    const mve_pred16_t some = vctp32q((uint32_t)filters);
    rescale_vector(p, unit, vldrwq_z_s32(sums, some), some, to);
}

/* Computes the outputs of at most four filters as products() and rescale_filters() do, but the sums stay in registers. */
TW_INLINE void outputs(const tw_fully_connected *p, const int8_t *x, const int8_t *weights, int32_t unit, int32_t filters,
                       int8_t *to)
{
    const int32_t depth = p->layer.in.c;
    const int8_t *w_0 = weights, *w_1 = filters > 1 ? w_0 + depth : w_0;
    const int8_t *w_2 = filters > 2 ? w_1 + depth : w_1, *w_3 = filters > 3 ? w_2 + depth : w_2;
    int32_t sum_0 = 0, sum_1 = 0, sum_2 = 0, sum_3 = 0;
    TW_MVE_DOTS(x, 16, w_0, w_1, w_2, w_3, 16, depth, sum_0, sum_1, sum_2, sum_3);
    const mve_pred16_t some = filters == FILTERS ? ALL : vctp32q((uint32_t)filters);
    rescale_vector(p, unit, tw_mve_lanes(sum_0, sum_1, sum_2, sum_3), some, to);
}

#else

/* Computes the outputs of at most four `filters` from `unit` on, from their sums of products. */
static inline void rescale_filters(const tw_fully_connected *p, int32_t unit, const int32_t *sums, int32_t filters, int8_t *to)
{
    tw_fully_connected_finish_s8(&p->layer, p->bias, unit, sums, filters, to);
}

TW_INLINE void outputs(const tw_fully_connected *p, const int8_t *x, const int8_t *weights, int32_t unit, int32_t filters,
                       int8_t *to)
{
    int32_t sums[FILTERS] = {0};
    products(x, weights, p->layer.in.c, p->layer.in.c, filters, sums);
    rescale_filters(p, unit, sums, filters, to);
}

#endif

/* Computes the outputs of the last one to three filters. A function of its own, so that the loop over all others tests no number of
 * filters. */
TW_NOT_INLINE void last_outputs(const tw_fully_connected *p, const int8_t *x, const int8_t *weights, int32_t unit,
                                int32_t filters, int8_t *to)
{
    outputs(p, x, weights, unit, filters, to);
}

/* Computes the outputs of `rows` contiguous input rows. */
TW_NOT_INLINE void multiply_rows(const tw_fully_connected *p, const int8_t *from, int8_t *to, int32_t rows)
{
    const int32_t depth = p->layer.in.c, units = p->layer.out.c;
    for (; rows > 0; --rows) {
        const int8_t *weights = p->weights;
        int32_t unit = 0;
        for (; unit + FILTERS <= units; unit += FILTERS) {
            outputs(p, from, weights, unit, FILTERS, to);
            weights += FILTERS * depth;
        }
        if (unit < units) {
            last_outputs(p, from, weights, unit, units - unit, to);
        }
        to += units;
        from += depth;
    }
}

void tw_fully_connected_s8_mve(const tw_fully_connected *p, const void *in, void *out)
{
    multiply_rows(p, (const int8_t *)in, (int8_t *)out, p->layer.out.h * p->layer.out.w);
}

void tw_fully_connected_s8_mve_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->layer.in.c);
        int8_t *const to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->layer.out.c);
        multiply_rows(p, from, to, range.col_end - range.col_begin);
    }
}

void tw_fully_connected_s8_mve_rows(const tw_fully_connected *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t row = in.row_stride, units = p->layer.out.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0), *weights = p->weights + y * row;
        for (int32_t unit = 0; unit < units; unit += FILTERS) {
            const int32_t filters = tw_min(units - unit, FILTERS);
            int32_t four[FILTERS];
            for (int32_t i = 0; i < FILTERS; ++i) {
                four[i] = y > 0 && i < filters ? sums[unit + i] : 0;
            }
            products(from, weights, p->layer.in.c, row, filters, four);
            memcpy(sums + unit, four, (size_t)filters * sizeof *sums);
            weights += FILTERS * p->layer.in.c;
        }
    }
    if (range.row_end * row == p->layer.in.c) {
        for (int32_t unit = 0; unit < units; unit += FILTERS) {
            rescale_filters(p, unit, sums + unit, tw_min(units - unit, FILTERS), (int8_t *)out);
        }
    }
}
