/* tw_mve_windows.h - im2col of dense convolutions with the Arm MVE extension: each window as contiguous bytes, rounded up to
 * 16. */
#ifndef TW_MVE_WINDOWS_H
#define TW_MVE_WINDOWS_H

#include "tw_conv.h"

/* Gathers `count` successive windows inside the map, the first at column `left`; window: their rows. */
void tw_mve_windows_inside(const tw_conv_shape *p, const tw_view *in, const tw_window *window, int32_t left, int32_t count,
                           int8_t *to);

/* Gathers any window. Taps in the padding hold the input's zero point, whose products the biases subtract. */
void tw_mve_windows_across(const tw_conv_shape *p, const tw_view *in, const tw_window *window, int32_t left, int8_t *to);

#endif
