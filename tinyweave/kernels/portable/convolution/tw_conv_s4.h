/* tw_conv_s4.h - what int4 convolutions end with. */
#ifndef TW_CONV_S4_H
#define TW_CONV_S4_H

#include "tw_conv.h"
#include "tw_int4.h"

/* A tw_conv_finish_pixel of at most four channels. */
static inline void tw_conv_finish_s4(const tw_conv *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *pixel)
{
    int8_t values[4];
    tw_conv_finish(p, channel, sums, count, values);
    tw_put_int4(pixel, channel, values, count);
}

#endif
