/* tw_conv_compact.h - one loop nest for dense, grouped and depthwise convolutions: the least code, not the least time. */
#ifndef TW_CONV_COMPACT_H
#define TW_CONV_COMPACT_H

#include "tw_conv.h"

/* The range of the output, one output channel at a time. In the weights, filters are `filter` bytes apart, and the taps of a
 * filter `tap` bytes. */
void tw_conv_compact(const tw_conv *p, const tw_view *in, const tw_view *out, tw_range range, int32_t filter, int32_t tap);

#endif
