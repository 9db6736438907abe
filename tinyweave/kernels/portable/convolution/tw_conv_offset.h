/* tw_conv_offset.h - the parameters of an int8 convolution whose weights have a zero point. */
#ifndef TW_CONV_OFFSET_H
#define TW_CONV_OFFSET_H

#include "tw_conv.h"

typedef struct {
    tw_conv conv;
    int32_t weights_zero;  /* the weights' zero point */
} tw_conv_offset;

#endif
