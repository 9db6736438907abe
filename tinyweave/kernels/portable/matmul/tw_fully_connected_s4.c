/* tw_fully_connected_s4.c - int4 dense layer with int4 weights, portable C. */
#include "tw_fully_connected.h"

#include "tw_dot_s4.h"

static inline void finish(const tw_fully_connected *p, int32_t channel, const int32_t *sums, int32_t count, int8_t *pixel)
{
    for (int32_t i = 0; i < count; ++i) {
        const int8_t value = tw_fully_connected_rescale(p, channel + i, sums[i]);
        tw_put_int4(pixel, channel + i, &value, 1);
    }
}

TW_FORMS(tw_fully_connected_s4, tw_fully_connected, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out,
         tw_fully_connected_over(p, in, out, range, 4, 4, 0, tw_dot_s4, finish))
