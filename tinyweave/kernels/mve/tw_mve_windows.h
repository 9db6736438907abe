/* tw_mve_windows.h - the windows of dense convolutions, each as bytes that lie together, up to a multiple of 16. */
#ifndef TW_MVE_WINDOWS_H
#define TW_MVE_WINDOWS_H

#include "tw_conv.h"

/* Gathers `count` windows of a row, all inside the map, the first of which begins at column `left`; window: their rows. */
void tw_mve_windows_inside(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t left, int32_t count,
                           int8_t *to);

/* Gathers any window. Taps outside of the map hold the input's zero point, which biases take off again. */
void tw_mve_windows_across(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t left, int8_t *to);

#endif
