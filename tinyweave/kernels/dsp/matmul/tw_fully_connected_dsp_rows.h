/* tw_fully_connected_dsp_rows.h - the loop over rows, and the rescaling of a sum, of dense layers with the Arm DSP extension. */
#ifndef TW_FULLY_CONNECTED_DSP_ROWS_H
#define TW_FULLY_CONNECTED_DSP_ROWS_H

#include "tw_dsp.h"
#include "tw_fully_connected_dsp.h"

/* A rescaling factor: tw_requantize_once for shifts of at most -2, which round away all of the product's low word. */
typedef struct { uint32_t high, low; int32_t half, exponent; } tw_factor;

static inline tw_factor factor_of(const tw_dense *p, int32_t index)
{
    const uint64_t multiplier = (uint64_t)p->multiplier[index];
    const int32_t exponent = -1 - p->shift[index];
    const tw_factor factor = {(uint32_t)(multiplier >> 32), (uint32_t)multiplier, 1 << (exponent - 1), exponent};
    return factor;
}

static inline int8_t rescale(int32_t x, tw_factor factor, int32_t zero)
{
    const uint32_t sign = (uint32_t)(x >> 31), magnitude = ((uint32_t)x ^ sign) - sign;
    /* if x is negative, ~product is the floor of its product; adding half then rounds halves away from zero */
    const int32_t product = tw_signed(tw_high_product(magnitude, factor.high, factor.low) ^ sign);
    return (int8_t)tw_ssat8(((product + factor.half) >> factor.exponent) + zero);
}

/* Computes a range of the output. all_units: computes the outputs of one row. */
TW_INLINE void all_rows(const tw_fully_connected_dsp *params, tw_view in, tw_view out, tw_range range,
                        void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to))
{
    const int32_t depth = params->dense.in.c, units = params->dense.out.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, depth);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, units);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            all_units(params, from, to);
            from += depth;
            to += units;
        }
    }
}

#endif
