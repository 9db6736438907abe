/* tw_fully_connected_s8_m7.h - int8 dense layer with the Arm DSP extension, in the order that suits a Cortex-M7. */
#ifndef TW_FULLY_CONNECTED_S8_M7_H
#define TW_FULLY_CONNECTED_S8_M7_H

#include "tw_fully_connected_dsp.h"

/* As tw_fully_connected_s8_dsp, with its stream. A _part form computes a range of the output, from and to parts of maps. */
void tw_fully_connected_s8_m7(const tw_fully_connected_dsp *p, const void *in, void *out);
void tw_fully_connected_s8_m7_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range);

#endif
