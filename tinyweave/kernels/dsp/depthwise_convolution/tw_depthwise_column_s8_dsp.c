/* tw_depthwise_column_s8_dsp.c - int8 depthwise convolution along maps of one column, with the Arm DSP extension and without
 * scratch: four channels of two outputs at a time, tap by tap; of one output if its window reaches into the padding or windows
 * are more than a row apart.
 *
 * Layers, weights: tw_depthwise_lean_dsp.h.
 * Cost: 14 instructions per 8 MACs of two outputs, 11 per 4 MACs of one output; rescaling not included.
 */
#include "tw_depthwise_lean_dsp.h"

#include <stddef.h>

#include "tw_column_taps.h"
#include "tw_taps_code.h"

/* Two neighbouring outputs. The assembly loads the members in this order. */
typedef struct {
    int8_t *to_0, *to_1;
    const int8_t *x, *x_last;  /* the first and the last tap of the first output */
    int32_t left;              /* channels */
    int32_t step;              /* bytes from a tap to the next */
    int32_t zero, sign;        /* see tw_rescale_doubled */
    uint32_t skip;             /* bytes of code that the first round skips, so that the last round is whole */
    const uint32_t *stream;
} two_outputs;

#define UNROLLED 4   /* taps per round */
#define TAP_BYTES 50 /* of code, of TAP_OF_BOTH */

/* Successive taps of an output: pixels of the map, or a word of zero points, whose step is 0. */
typedef struct {
    const int8_t *x;
    int32_t step, count;
} run_of_taps;

/* Appends a run if it has any taps; returns the next free run. */
static run_of_taps *put(run_of_taps *run, const void *x, int32_t step, int32_t count)
{
    if (count > 0) {
        run->x = (const int8_t *)x;
        run->step = step;
        run->count = count;
        ++run;
    }
    return run;
}

/* Computes an output. top: the first row of its window; in: the map. */
static void one(const tw_conv_dsp *params, const tw_view *in, int32_t top, int8_t *to)
{
    const tw_conv_shape *p = &params->conv;
    const tw_span inside = tw_inside(top, p->kernel.h, 1, p->in.h);
    const int32_t channels = p->in.c, step = in->row_stride, count = inside.end - inside.begin;
    const int32_t zero = p->out_zero, sign = params->sign;
    const uint32_t padding = ((uint32_t)p->in_zero & 0xFFu) * 0x01010101u, *stream = params->stream;
    run_of_taps runs[4], *end = put(runs, &padding, 0, inside.begin); /* padding, the map up to the end of the ring, its rest */
    if (count > 0) {
        const int32_t slot = tw_slot(in, top + inside.begin), first = tw_min(count, in->ring_height - slot);
        end = put(end, tw_pixel(in, top + inside.begin, 0, channels), step, first);
        end = put(end, tw_pixel(in, in->first_row, 0, channels), step, count - first);
    }
    end = put(end, &padding, 0, p->kernel.h - tw_max(inside.begin, inside.end));
    for (int32_t begin = 0; begin < channels; begin += 4) {
        const int32_t channel = tw_min(begin, channels - 4);
        int32_t sums[4] = {tw_signed(stream[0]), tw_signed(stream[1]), tw_signed(stream[2]), tw_signed(stream[3])};
        stream += 4;
        for (const run_of_taps *run = runs; run != end; ++run) {
            stream = tw_column_taps(run->step ? run->x + channel : run->x, run->step, run->count, stream, sums);
        }
        stream = tw_column_finish(sums, stream, zero, sign, to + channel);
    }
}

#if TW_HAS_DSP

/* All channels of two outputs.
 * Registers: r0: the current tap; the others as in tw_taps_code.h.
 * Stack, 68 bytes: r4 .. r11, saved here since the code needs all registers; below them the two_outputs up to `skip`: [sp] to_0,
 * +4 to_1, +8 x, +12 x_last, +16 left, +20 step, +24 zero, +28 sign, +32 the entry of the loop instead of `skip`.
 * Labels: 1: four channels: sums from the stream, the first output's first tap; 2: a round of taps that both outputs read, which
 * the first output multiplies by the weights after those of the second; then the second output's last tap and rescaling, with
 * TW_FIX at label 3 if `sign` is set. If fewer than four channels are left, all pointers advance by as many, so that the last
 * four are computed, some of them again. TAP_BYTES must be the exact size of TAP_OF_BOTH.
 * Equals two() below in plain C. */
#define WIDENED "sxtb16 r3, r2, ror #8\nsxtb16 r2, r2\n"
#define TAP_OF_BOTH           \
    "ldr.n r3, [sp, #20]\n"   \
    "add.n r0, r0, r3\n"      \
    "ldr.n r2, [r0]\n"        \
    WIDENED SECOND_SUMS WEIGHTS FIRST_SUMS
#define TWO_OUTPUTS                          \
    "push {r4-r11}\n"                        \
    "ldm r0, {r1-r10}\n"                     \
    "adr r11, 2f\n"                          \
    "add r9, r9, r11\n"                      \
    "orr r9, r9, #1\n"                       \
    "push {r1-r9}\n"                         \
    "mov r1, r10\n"                          \
    "1:\n"                                   \
    "ldm r1!, {r4-r7}\n"                     \
    TW_FOUR_MORE                             \
    "ldr r0, [sp, #8]\n"                     \
    "ldr r2, [r0]\n"                         \
    WIDENED WEIGHTS FIRST_SUMS               \
    "ldr pc, [sp, #32]\n"                    \
    ".p2align 2\n"                           \
    "2:\n"                                   \
    ".rept 4\n" TAP_OF_BOTH ".endr\n"        \
    "ldr r2, [sp, #12]\n"                    \
    "cmp r0, r2\n"                           \
    "bne.w 2b\n"                             \
    "ldr r3, [sp, #20]\n"                    \
    "ldr r2, [r0, r3]\n"                     \
    WIDENED SECOND_SUMS                      \
    "ldrd r12, lr, [sp, #24]\n"              \
    "cmp lr, #0\n"                           \
    "bne.w 3f\n"                             \
    FOUR(BYTES_TWO, TW_NO_FIX)               \
    "4:\n"                                   \
    "ldrd r2, r3, [sp]\n"                    \
    "strb r4, [r2]\n"                        \
    "strb r5, [r2, #1]\n"                    \
    "strb r6, [r2, #2]\n"                    \
    "strb r7, [r2, #3]\n"                    \
    "strb r8, [r3]\n"                        \
    "strb r9, [r3, #1]\n"                    \
    "strb r10, [r3, #2]\n"                   \
    "strb r11, [r3, #3]\n"                   \
    "ldrd r4, r5, [sp, #8]\n"                \
    "ldr r6, [sp, #16]\n"                    \
    "movs r7, #4\n"                          \
    "subs r6, r6, #4\n"                      \
    "beq 5f\n"                               \
    "cmp r6, #4\n"                           \
    "itt lt\n"                               \
    "movlt r7, r6\n"                         \
    "movlt r6, #4\n"                         \
    "add r2, r2, r7\n"                       \
    "add r3, r3, r7\n"                       \
    "add r4, r4, r7\n"                       \
    "add r5, r5, r7\n"                       \
    "stm sp, {r2-r6}\n"                      \
    "b.w 1b\n"                               \
    "3:\n"                                   \
    FOUR(BYTES_TWO, TW_FIX)                  \
    "b.w 4b\n"                               \
    "5:\n"                                   \
    "add sp, sp, #36\n"                      \
    "pop {r4-r11}\n"

static void two(const two_outputs *outputs)
{
    TW_RUN(TWO_OUTPUTS, outputs);
}

#else

/* Both outputs are read before either is written. */
static void two(const two_outputs *outputs)
{
    const uint32_t *stream = outputs->stream;
    for (int32_t begin = 0; begin < outputs->left; begin += 4) {
        const int32_t channel = tw_min(begin, outputs->left - 4);
        int32_t sums[2][4];
        TW_COPY(sums[0], stream, sizeof sums[0]);
        TW_COPY(sums[1], stream, sizeof sums[1]);
        stream += 4;
        const int32_t step = outputs->step, taps = (int32_t)(outputs->x_last - outputs->x) / step + 1;
        tw_column_taps(outputs->x + channel, step, taps, stream, sums[0]);
        stream = tw_column_taps(outputs->x + channel + step, step, taps, stream, sums[1]);
        tw_column_finish(sums[0], stream, outputs->zero, outputs->sign, outputs->to_0 + channel);
        stream = tw_column_finish(sums[1], stream, outputs->zero, outputs->sign, outputs->to_1 + channel);
    }
}

#endif

/* Computes rows of the output. */
static void rows_in(const tw_conv_dsp *params, tw_view in, tw_view out, tw_range range)
{
    const tw_conv_shape *p = &params->conv;
    const int32_t channels = p->in.c, height = p->kernel.h, taps = height - 1; /* that both outputs read */
    two_outputs outputs;
    outputs.left = channels;
    outputs.step = in.row_stride;
    outputs.zero = p->out_zero;
    outputs.sign = params->sign;
    outputs.skip = TAP_BYTES * (uint32_t)(taps ? -taps & (UNROLLED - 1) : UNROLLED);
    outputs.stream = params->stream;
    for (int32_t y = range.row_begin, count; y < range.row_end && range.col_begin < range.col_end; y += count) {
        const int32_t top = y * p->stride.h - p->pad.h;
        int8_t *const to = (int8_t *)tw_pixel(&out, y, 0, channels);
        count = p->stride.h == 1 && y + 1 < range.row_end && top >= 0 && top + height < p->in.h ? 2 : 1;
        if (count == 2 && tw_slot(&in, top) + height < in.ring_height) {
            outputs.to_0 = to;
            outputs.to_1 = (int8_t *)tw_pixel(&out, y + 1, 0, channels);
            outputs.x = (const int8_t *)tw_pixel(&in, top, 0, channels);
            outputs.x_last = outputs.x + taps * outputs.step;
            two(&outputs);
        } else {
            count = 1;
            one(params, &in, top, to);
        }
        for (int32_t i = 0; i < count; ++i) {
            tw_clamp_all((int8_t *)tw_pixel(&out, y + i, 0, channels), channels, p->out_min, p->out_max);
        }
    }
}

TW_FORMS(tw_depthwise_column_s8_dsp, tw_conv_dsp, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out,
         rows_in(p, in, out, range))
