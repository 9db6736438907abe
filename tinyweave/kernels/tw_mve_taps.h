/* tw_mve_taps.h - the inner loop of depthwise convolutions with the Arm MVE extension: one window of sixteen channels.
 *
 * Weights come as one stream of words. Per sixteen channels: as many biases, of which the input's zero point times the weights is
 * taken off; of each tap as many weights, all more than -128, so that two products add up in 16 bits; multipliers; shifts, 0 or
 * less, as VRSHL takes them. Words come in the order of channels in which VMULLB, VMULLT and VMOVLB, VMOVLT leave them: 0, 4, 8,
 * 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15. What is missing of the last sixteen channels is 0.
 */
#ifndef TW_MVE_TAPS_H
#define TW_MVE_TAPS_H

#include "tw.h"

typedef struct {
    int32_t rows, cols;       /* taps */
    int32_t step;             /* bytes from a tap to the next in a row */
    int32_t row_step, ring;   /* from a row to the next; of the whole ring */
    int32_t zero, low, high;  /* the output's zero point, the clamp */
    int32_t sign;             /* -1: rescaling must round negative halves away from zero; 0: they end at the clamp either way */
} tw_mve_window;

/* Writes the first `count` of sixteen outputs; offset: of the first tap in `data`. All sixteen inputs of each tap are read. */
void tw_mve_taps(const tw_mve_window *window, const int8_t *data, int32_t offset, const uint32_t *stream, int32_t count,
                 int8_t *to);

#endif
