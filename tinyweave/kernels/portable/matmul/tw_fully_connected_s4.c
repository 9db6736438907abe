/* tw_fully_connected_s4.c - int4 dense layer with int4 weights, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot_s4.h"

static inline void dot(const tw_fully_connected *p, const int8_t *from, const int8_t *weights, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_s4(from, 0, p->in_zero, weights, tw_int4_bytes(p->in.c), 0, p->in.c, sums);
    } else {
        tw_dot1_s4(from, 0, p->in_zero, weights, 0, p->in.c, sums);
    }
}

static inline void finish(const tw_fully_connected *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *pixel)
{
    for (int32_t i = 0; i < count; ++i) {
        const int8_t value = tw_fully_connected_rescale(p, channel + i, sums[i]);
        tw_put_int4(pixel, channel + i, &value, 1);
    }
}

void tw_fully_connected_s4_part(const tw_fully_connected *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t in_pixel = tw_int4_bytes(p->in.c), out_pixel = tw_int4_bytes(p->out.c);
    tw_fully_connected_over(p, in, in_pixel, out, out_pixel, range, in_pixel, dot, finish);
}

TW_WHOLE_FORM(tw_fully_connected_s4, tw_fully_connected, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out)
