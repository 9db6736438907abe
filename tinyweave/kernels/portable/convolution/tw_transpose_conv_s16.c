/* tw_transpose_conv_s16.c - transposed convolution of int16 maps, portable C: the specification of every faster variant. */
#include "tw_conv_s16.h"

#include "tw_meeting.h"

/* What one output pixel collects for the channel of these weights. */
static int64_t collect(const tw_conv_s16_base *p, const int16_t *in, tw_meeting rows, tw_meeting cols, const int8_t *weights)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < rows.count; ++i) {
        for (int32_t j = 0; j < cols.count; ++j) {
            const int32_t tap = (rows.tap + i * p->stride.h) * p->kernel.w + cols.tap + j * p->stride.w;
            sum += tw_dot_s16(in + ((rows.from - i) * p->in.w + cols.from - j) * p->in.c, weights + tap * p->in.c, p->in.c);
        }
    }
    return sum;
}

void tw_transpose_conv_s16(const tw_conv_s16 *conv, const void *in, void *out)
{
    const tw_conv_s16_base *const p = &conv->base;
    const int32_t filter = p->kernel.h * p->kernel.w * p->in.c;
    int16_t *to = (int16_t *)out;
    for (int32_t y = 0; y < p->out.h; ++y) {
        const tw_meeting rows = tw_meet(y + p->pad.h, p->kernel.h, p->stride.h, p->in.h);
        for (int32_t x = 0; x < p->out.w; ++x) {
            const tw_meeting cols = tw_meet(x + p->pad.w, p->kernel.w, p->stride.w, p->in.w);
            for (int32_t channel = 0; channel < p->out.c; ++channel) {
                const int64_t sum = collect(p, (const int16_t *)in, rows, cols, p->weights + channel * filter);
                *to++ = tw_conv_finish_s16(conv, channel, sum);
            }
        }
    }
}
