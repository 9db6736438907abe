/* tw_conv_2d_s4_dsp.c - int4 convolution with int4 weights, with the Arm DSP extension: im2col of two pixels, then
 * tw_pair_w4.c.
 *
 * Layers, weights and scratch: tw_conv_dsp.h. The im2col buffer holds inputs plus 8, as unsigned half bytes in lanes of 16
 * bits.
 */
#include "tw_conv_dsp.h"

#include <stddef.h>

#include "tw_dsp.h"
#include "tw_pair_w4.h"

#define EVEN_HALVES 0x000F000Fu  /* half bytes 0 and 4 of a word */
#define EIGHTS 0x88888888u       /* XOR adds 8: half bytes -8 .. 7 become 0 .. 15 */

/* Widens `count` words of eight inputs of one window; returns where its next word goes. */
static inline uint32_t *widen(uint32_t *to, const int8_t *from, int32_t count)
{
    for (; count > 0; --count) {
        const uint32_t word = tw_word(from) ^ EIGHTS;
        to[0] = word & EVEN_HALVES;
        to[2] = (word >> 4) & EVEN_HALVES;
        to[4] = (word >> 8) & EVEN_HALVES;
        to[6] = (word >> 12) & EVEN_HALVES;
        to += 8;
        from += 4;
    }
    return to;
}

/* Fills `count` words of one window with `value`; returns where its next word goes. */
static inline uint32_t *fill(uint32_t *to, int32_t value, int32_t count)
{
    const uint32_t both = tw_lanes(value + 8, value + 8);
    for (; count > 0; --count) {
        to[0] = to[2] = to[4] = to[6] = both;
        to += 8;
    }
    return to;
}

/* Gathers the window of output column `x`; a pixel has 8 * words inputs. */
static void gather(const tw_conv *p, const tw_view *in, tw_window *window, int32_t x, int32_t words, uint32_t *to)
{
    tw_window_cols(p, window, x);
    const int32_t first = window->row_tap / p->kernel.w, before = window->tap - window->row_tap;
    const int32_t after = p->kernel.w - before - window->cols;
    int32_t offset = window->offset;
    to = fill(to, p->in_zero, first * p->kernel.w * words);
    for (int32_t row = 0; row < window->rows; ++row) {
        to = fill(to, p->in_zero, before * words);
        to = widen(to, (const int8_t *)in->data + offset, window->cols * words);
        to = fill(to, p->in_zero, after * words);
        offset = tw_down(offset, window->step, window->ring);
    }
    fill(to, p->in_zero, (p->kernel.h - first - window->rows) * p->kernel.w * words);
}

/* Clamps and packs the outputs of a pixel. */
static void pack(const tw_conv *p, int8_t *values, int8_t *to)
{
    const int32_t channels = p->out.c;
    tw_clamp_bytes(values, channels, p->out_min, p->out_max);
    int32_t i = 0;
    for (; i + 4 <= channels; i += 4) {
        const uint32_t halves = tw_word(values + i) & 0x0F0F0F0Fu, pairs = halves | halves >> 4;
        *to++ = (int8_t)(uint8_t)pairs;
        *to++ = (int8_t)(uint8_t)(pairs >> 16);
    }
    tw_put_int4(to, 0, values + i, channels - i);
}

void tw_conv_2d_s4_dsp_part(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->conv;
    const int32_t words = p->in.c / 8, inputs = p->kernel.h * p->kernel.w * p->in.c;
    const int32_t out_pixel = tw_int4_bytes(p->out.c), values = (p->out.c + 3) / 4 * 4;
    uint32_t *const wide = (uint32_t *)scratch;
    int8_t *const outputs = (int8_t *)(wide + inputs);
    int8_t *first = NULL; /* the first output pixel of an incomplete pair */
    tw_pair pair;
    tw_pair_inputs(&pair, wide, inputs / 4);
    pair.zero = p->out_zero;
    outputs[2 * values - 1] = 0; /* a single pixel does not reach the end of the scratch, which plans reserve */

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, out_pixel);
        tw_window window = tw_window_of(p, &in, y, 4 * words);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const int last = y + 1 == range.row_end && x + 1 == range.col_end;
            gather(p, &in, &window, x, words, wide + (first != NULL));
            if (first == NULL && !last) {
                first = to;
            } else {
                pair.to_0 = outputs;
                pair.to_0_end = outputs + p->out.c;
                pair.to_1 = first != NULL ? outputs + values : outputs;
                tw_pair_products_w4(&pair, params->stream, params->sign);
                if (first != NULL) {
                    pack(p, outputs, first);
                }
                pack(p, first != NULL ? outputs + values : outputs, to);
                first = NULL;
            }
            to += out_pixel;
        }
    }
}

TW_WHOLE_FORM_SCRATCH(tw_conv_2d_s4_dsp, tw_conv_dsp, tw_whole_s4(in, p->conv.in), tw_whole_s4(out, p->conv.out), p->conv.out)
