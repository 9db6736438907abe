/* tw_conv_pairs.c - dense convolutions with the Arm DSP extension: im2col of two pixels, then one of the inner loops of
 * tw_pair.h. */
#include "tw_conv_pairs.h"

#include "tw_dsp.h"
#include "tw_windows.h"

/* Computes and clamps the outputs of both pixels, or of a single one. */
static void multiply(const tw_conv_dsp *params, tw_pair *pair, tw_pair_products *products)
{
    const tw_conv_shape *p = &params->conv;
    products(pair, params->stream, params->sign);
    tw_clamp_all(pair->to_0, p->out.c, p->out_min, p->out_max);
    tw_clamp_all(pair->to_1, p->out.c, p->out_min, p->out_max);
}

void tw_conv_pairs(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch,
                   tw_pair_products *products)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t channels = p->out.c, stride = p->stride.w, step = stride * p->in.c;
    int32_t slot = 0;
    tw_windows windows;
    tw_pair pair;
    tw_pair_inputs(&pair, (const uint32_t *)scratch, tw_windows_set(&windows, p, &in, scratch));
    pair.zero = p->out_zero;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        const tw_window window = tw_window_of(p, &in, y, p->in.c);
        int32_t left = range.col_begin * stride - p->pad.w;
        const int32_t past = range.col_end * stride - p->pad.w;
        const int32_t end = window.rows == p->kernel.h ? p->in.w - p->kernel.w : -1; /* last column of a window inside */
        const int32_t last_pair = tw_min(end, past - stride) - stride; /* last column of two windows inside */
        int32_t offset = window.row_offset + left * p->in.c;
        while (left < past) {
            if (slot == 0 && left >= 0 && left <= last_pair) {
                int8_t *const begin = to;
                do {
                    windows.pair(&windows, offset, step);
                    pair.to_0 = to;
                    to += channels;
                    pair.to_0_end = to;
                    pair.to_1 = to;
                    to += channels;
                    products(&pair, params->stream, params->sign);
                    left += 2 * stride;
                    offset += 2 * step;
                } while (left <= last_pair);
                tw_clamp_all(begin, (int32_t)(to - begin), p->out_min, p->out_max);
                continue;
            }
            if (left >= 0 && left <= end) {
                tw_windows_inside(&windows, offset, slot);
            } else {
                tw_windows_across(&windows, &window, left, slot);
            }
            pair.to_1 = to;
            if (slot == 0) {
                pair.to_0 = to;
                pair.to_0_end = to + channels;
            } else {
                multiply(params, &pair, products);
            }
            slot ^= 1;
            to += channels;
            left += stride;
            offset += step;
        }
    }
    if (slot == 1) {
        multiply(params, &pair, products);
    }
}

void tw_conv_pairs_copying(const tw_conv_dsp *params, const void *in, void *out, void *scratch, tw_pair_products *products)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t groups = (p->out.c + 3) / 4, words = 4 * groups * (3 + tw_windows_quads(p));
    uint32_t *const copy = (uint32_t *)scratch;
    for (int32_t i = 0; i < words; i += 4) { /* not memcpy, which small C libraries do byte by byte */
        const uint32_t *from = params->stream + i;
        const uint32_t first = from[0], second = from[1], third = from[2], fourth = from[3];
        copy[i] = first;
        copy[i + 1] = second;
        copy[i + 2] = third;
        copy[i + 3] = fourth;
    }
    tw_conv_dsp copied = *params;
    copied.stream = copy;
    tw_conv_pairs(&copied, tw_whole(in, p->in), tw_whole(out, p->out), tw_all(p->out), copy + words, products);
}

void tw_pair_tail(const tw_pair *pair, const uint32_t *stream, int32_t sign, tw_pair_fours *products)
{
    const int32_t count = (int32_t)(pair->to_0_end - pair->to_0), rest = count & 3, fours = count - rest;
    tw_pair part = *pair;
    if (fours > 0) {
        part.to_0_end -= rest;
        stream = products(&part, stream, sign);
    }
    int8_t last_0[4], last_1[4];
    part.to_0 = last_0;
    part.to_1 = pair->to_1 == pair->to_0 ? last_0 : last_1;
    part.to_0_end = last_0 + 4;
    products(&part, stream, sign);
    for (int32_t i = 0; i < rest; ++i) {
        pair->to_1[fours + i] = part.to_1[i];
        pair->to_0[fours + i] = last_0[i];
    }
}
