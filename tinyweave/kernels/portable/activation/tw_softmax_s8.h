/* tw_softmax_s8.h - int8 softmax over the channels of each pixel, portable C. */
#ifndef TW_SOFTMAX_S8_H
#define TW_SOFTMAX_S8_H

#include "tw_softmax.h"

/* The output has the scale 1/256 and the zero point -128. Needs no scratch; out may lie over in. */
void tw_softmax_s8(const tw_softmax *p, const void *in, void *out);

/* The same for a range of the output, from and to parts of maps. */
void tw_softmax_s8_part(const tw_softmax *p, tw_view in, tw_view out, tw_range range);

#endif
