/* tw_mve_taps.h - the inner loop of depthwise convolutions with the Arm MVE extension: windows of sixteen channels.
 *
 * Weights come as one stream of words. Per sixteen channels: as many biases, of which the input's zero point times the
 * weights is taken off; of each tap as many weights, all more than -128, so that two products add up in 16 bits; multipliers;
 * shifts, 0 or less, as VRSHL takes them. Words come in the order of channels in which VMULLB, VMULLT and VMOVLB, VMOVLT
 * leave them: 0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15. What is missing of the last sixteen channels is 0.
 */
#ifndef TW_MVE_TAPS_H
#define TW_MVE_TAPS_H

#include "tw.h"

/* The order is that in which the assembly reads it. */
typedef struct {
    const uint32_t *stream;
    int32_t *tap;             /* where each tap's inputs lie, in bytes from a window's first channel, or tw_mve_outside */
    const int8_t *zeros;      /* as many as channels, up to a multiple of 16: the inputs of taps outside of the map */
    int32_t taps;
    int32_t above, below;     /* how many of the first and last ones lie in rows outside of the map */
    int32_t zero, low, high;  /* the output's zero point, the clamp */
    int32_t sign;             /* -1: rescaling must round negative halves away from zero; 0: they end at the clamp either way */
} tw_mve_taps;

/* Where a tap outside of the map lies, seen from a window's first channel `x`. */
int32_t tw_mve_outside(const int8_t *zeros, const int8_t *x);

/* Writes the outputs of channels [begin, end), `begin` a multiple of sixteen, of `pixels` neighbouring pixels, one after the
 * other. x: the first channel of the first window; x_step: bytes to the next one, which moves taps outside of the map back.
 * Of each tap the inputs of whole sixteens are read. */
void tw_mve_taps_products(const tw_mve_taps *taps, const int8_t *x, int32_t x_step, int32_t pixels, int32_t begin, int32_t end,
                          int8_t *to);

#endif
