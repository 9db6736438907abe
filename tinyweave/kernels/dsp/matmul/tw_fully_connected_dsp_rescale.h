/* tw_fully_connected_dsp_rescale.h - how the dense layers with the Arm DSP extension rescale a sum. */
#ifndef TW_FULLY_CONNECTED_DSP_RESCALE_H
#define TW_FULLY_CONNECTED_DSP_RESCALE_H

#include "tw_dsp.h"
#include "tw_fully_connected.h"

/* A rescaling factor: tw_requantize_once for shifts of at most -2, which round away all of the product's low word. */
typedef struct { uint32_t high, low; int32_t half, exponent; } tw_factor;

static inline tw_factor factor_of(const tw_fully_connected *p, int32_t index)
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

#endif
