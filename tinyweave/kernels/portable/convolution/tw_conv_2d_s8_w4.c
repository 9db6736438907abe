/* tw_conv_2d_s8_w4.c - convolution of int8 maps with int4 weights, portable C: the specification of every faster variant. */
#include "tw_conv.h"

#include "tw_conv_2d.h"
#include "tw_dot_w4.h"

static inline void dot(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                       int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_w4(pixel + first_in, zero, weights, filter, first, count, sums);
    } else {
        tw_dot1_w4(pixel + first_in, zero, weights, first, count, sums);
    }
}

static int32_t filter_bytes(const tw_conv *p)
{
    return tw_int4_bytes(p->kernel.h * p->kernel.w * (p->in.c / p->groups));
}

static void products(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in, const int8_t *weights,
                     int32_t filters, int32_t *sums)
{
    tw_conv_2d_sum(p, in, window, first_in, weights, filter_bytes(p), filters, sums, p->in.c / p->groups, dot);
}

void tw_conv_2d_s8_w4_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    tw_conv_2d_over(p, in, p->in.c, out, p->out.c, range, filter_bytes(p), products, tw_conv_finish_s8);
}

TW_WHOLE_FORM(tw_conv_2d_s8_w4, tw_conv, tw_whole(in, p->in), tw_whole(out, p->out), p->out)
