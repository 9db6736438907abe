/* tw_conv_2d_s4.c - int4 convolution with int4 weights, portable C. */
#include "tw_conv.h"

#include "tw_conv_2d.h"
#include "tw_conv_s4.h"
#include "tw_dot_s4.h"

static inline void dot(const int8_t *pixel, int32_t first_in, int32_t zero, const int8_t *weights, int32_t filter,
                       int32_t first, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 4) {
        tw_dot4_s4(pixel, first_in, zero, weights, filter, first, count, sums);
    } else {
        tw_dot1_s4(pixel, first_in, zero, weights, first, count, sums);
    }
}

static int32_t tap_bytes(const tw_conv *p) { return tw_int4_bytes(p->in.c / p->groups); }
static int32_t filter_bytes(const tw_conv *p) { return p->kernel.h * p->kernel.w * tap_bytes(p); }

static void products(const tw_conv *p, const tw_view *in, const tw_window *window, int32_t first_in, const int8_t *weights,
                     int32_t filters, int32_t *sums)
{
    tw_conv_2d_sum(p, in, window, first_in, weights, filter_bytes(p), filters, sums, 2 * tap_bytes(p), dot);
}

void tw_conv_2d_s4_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t in_pixel = tw_int4_bytes(p->in.c), out_pixel = tw_int4_bytes(p->out.c);
    tw_conv_2d_over(p, in, in_pixel, out, out_pixel, range, filter_bytes(p), products, tw_conv_finish_s4);
}

TW_WHOLE_FORM(tw_conv_2d_s4, tw_conv, tw_whole_s4(in, p->in), tw_whole_s4(out, p->out), p->out)
