/* tw_depthwise_conv_2d_s8_m3.c - int8 depthwise convolution for a Cortex-M3, in assembly: eight channels of a pixel, whose sums
 * stay in registers. tw_conv_scalar.h has the layers and the stream. */
#include "tw_conv_scalar.h"

#define CHANNELS 8 /* of a group */

/* The window of a pixel, and groups of channels. The assembly reads the members in this order. */
typedef struct {
    const uint32_t *stream;
    int32_t rows;           /* of the window inside the map */
    const int8_t *data;     /* the window's first byte inside the map, of the first group's first channel */
    int8_t *to;
    int32_t groups;
    int32_t in_zero, out_zero;
    int32_t before, tail;   /* bytes of weights before the first tap inside the map, and after the last */
    int32_t left;           /* for the assembly: rows to come */
    int32_t gap;            /* bytes from the end of a window's row to the begin of the next */
    const int8_t *limit;    /* end of the ring buffer: rows do not begin at or after it */
    int32_t ring;           /* bytes of the ring buffer */
    int32_t skip;           /* bytes of weights from the end of a row of the window to the next row */
    int32_t run, step;      /* bytes of a row of the window; from the end of a tap's channels to the next tap */
} pixel;

#if defined(__ARM_ARCH_7M__) && defined(__GNUC__)

/* Adds a zero point, in r3, or an input times a weight. EIGHT does so for all channels. */
#define OUTSIDE(sum) "ldrsb.w lr, [r2], #1\n mla " sum ", r3, lr, " sum "\n"
#define INSIDE(sum) "ldrsb.w r3, [r0], #1\n" OUTSIDE(sum)
#define EIGHT(DO) DO("r4") DO("r5") DO("r6") DO("r7") DO("r8") DO("r9") DO("r10") DO("r11")
#define FINISH(less, sum) "ldr.w r12, [r2], #4\n ldrb r0, [r2, #" less "]\n" TW_RESCALED(sum)
#define STORE(sum) "strb " sum ", [r0], #1\n"

/* Computes the outputs of groups of channels; outputs saturate to int8.
 * Registers at entry: r0: the pixel. In the loops r0: inputs; r1: step; r2: stream; r3: an input; r4 .. r11: sums; r12: end of
 * the row, or of the weights outside of the map; lr: a weight. At the end of a group r3: zero point.
 * Stack, 92 bytes: the members from left on, those from rows to tail; r4 .. r11.
 * Equals finish_groups() below in plain C, but for the clamp. */
#define GROUPS                                 \
    "push {r4-r11}\n"                          \
    "ldm r0!, {r2, r4-r11}\n"                  \
    "push {r4-r11}\n"                          \
    "ldm r0, {r4-r10}\n"                       \
    "push {r4-r10}\n"                          \
    "1:\n"                                     \
    "ldm r2!, {r4-r11}\n"                      \
    "ldrd r3, r0, [sp, #28]\n"                 \
    "str r3, [sp]\n"                           \
    "ldr r3, [sp, #52]\n"                      \
    "2:\n"                                     \
    "cbz r3, 4f\n"                             \
    "add.w r12, r2, r3\n"                      \
    "ldr r3, [sp, #44]\n"                      \
    "3:\n"                                     \
    EIGHT(OUTSIDE)                             \
    "cmp r2, r12\n"                            \
    "bne 3b\n"                                 \
    "4:\n"                                     \
    "ldr r3, [sp]\n"                           \
    "cmp r3, #0\n"                             \
    "beq.w 6f\n"                               \
    "ldrd r12, r1, [sp, #20]\n"                \
    "add r12, r0\n"                            \
    "5:\n"                                     \
    EIGHT(INSIDE)                              \
    "add r0, r1\n"                             \
    "cmp r0, r12\n"                            \
    "bne 5b\n"                                 \
    "ldrd r3, r12, [sp]\n"                     \
    "add r0, r12\n"                            \
    "ldrd r1, r12, [sp, #8]\n"                 \
    "cmp r0, r1\n"                             \
    "it hs\n"                                  \
    "subhs.w r0, r0, r12\n"                    \
    "subs r3, #1\n"                            \
    "str r3, [sp]\n"                           \
    "ite eq\n"                                 \
    "ldreq r3, [sp, #56]\n"                    \
    "ldrne r3, [sp, #16]\n"                    \
    "b 2b\n"                                   \
    "6:\n"                                     \
    "ldr r3, [sp, #48]\n"                      \
    FINISH("28", "r4") FINISH("25", "r5") FINISH("22", "r6") FINISH("19", "r7") \
    FINISH("16", "r8") FINISH("13", "r9") FINISH("10", "r10") FINISH("7", "r11") \
    "adds r2, #8\n"                            \
    "ldrd r1, r0, [sp, #32]\n"                 \
    "adds r1, #8\n"                            \
    EIGHT(STORE)                               \
    "strd r1, r0, [sp, #32]\n"                 \
    "ldr r0, [sp, #40]\n"                      \
    "subs r0, #1\n"                            \
    "str r0, [sp, #40]\n"                      \
    "bne.w 1b\n"                               \
    "add sp, #60\n"                            \
    "pop {r4-r11}\n"

static void finish_groups(const tw_conv_shape *p, const pixel *at)
{
    register const pixel *given __asm__("r0") = at;
    __asm__ volatile(".syntax unified\n" GROUPS : "+r"(given) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory");
    if (p->out_min > -128 || p->out_max < 127) {
        for (int32_t k = 0; k < CHANNELS * at->groups; ++k) {
            at->to[k] = (int8_t)tw_clamp(at->to[k], p->out_min, p->out_max);
        }
    }
}

#else

/* Adds the products of a tap, or of `value` if x is null, to the sums of a group; returns the weights after it. */
static const int8_t *add_tap(const int8_t *x, int32_t value, const int8_t *weights, uint32_t *sums)
{
    for (int32_t k = 0; k < CHANNELS; ++k) {
        sums[k] += (uint32_t)((x ? x[k] : value) * weights[k]);
    }
    return weights + CHANNELS;
}

static void finish_groups(const tw_conv_shape *p, const pixel *at)
{
    const uint32_t *stream = at->stream;
    const int32_t zero = at->out_zero, low = p->out_min - zero, high = p->out_max - zero;
    for (int32_t group = 0; group < at->groups; ++group) {
        const int8_t *x = at->data + CHANNELS * group, *weights = (const int8_t *)(stream + CHANNELS), *end = weights + at->before;
        uint32_t sums[CHANNELS];
        for (int32_t k = 0; k < CHANNELS; ++k) {
            sums[k] = stream[k];
        }
        for (int32_t left = at->rows;; --left) {
            while (weights != end) {
                weights = add_tap(0, at->in_zero, weights, sums);
            }
            if (left == 0) {
                break;
            }
            for (const int8_t *const last = x + at->run; x != last; x += CHANNELS + at->step) {
                weights = add_tap(x, 0, weights, sums);
            }
            if (left > 1) {
                x += at->gap;
                x -= x >= at->limit ? at->ring : 0;
            }
            end = weights + (left > 1 ? at->skip : at->tail);
        }
        stream = (const uint32_t *)(const void *)weights;
        for (int32_t k = 0; k < CHANNELS; ++k) {
            const int32_t scaled = tw_rescale_down((int32_t)sums[k], stream[k], ((const int8_t *)(stream + CHANNELS))[k]);
            at->to[CHANNELS * group + k] = (int8_t)(tw_clamp(scaled, low, high) + zero);
        }
        stream += CHANNELS + CHANNELS / 4;
    }
}

#endif

void tw_depthwise_conv_2d_s8_m3_part(const tw_conv_scalar *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t depth = p->conv.in.c, width = p->conv.kernel.w, taps = p->conv.kernel.h * width;
    const tw_span within = tw_within(&p->conv, range);
    pixel at;
    at.in_zero = p->conv.in_zero;
    at.out_zero = p->conv.out_zero;
    at.step = depth - CHANNELS;
    at.rows = at.run = at.gap = at.skip = at.before = at.tail = 0;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, depth);
        tw_window window = tw_window_of(&p->conv, &in, y, depth);
        const int8_t *data = 0;
        at.ring = window.ring;
        at.limit = (const int8_t *)in.data + window.ring;
        for (int32_t x = range.col_begin; x < range.col_end; ++x, to += depth) {
            if (x > within.begin && x < within.end) { /* the window before was inside, too */
                data += p->conv.stride.w * depth;
            } else {
                tw_window_cols(&p->conv, &window, x);
                at.rows = window.cols ? window.rows : 0;
                at.run = window.cols * depth;
                at.gap = window.step - at.run;
                at.skip = CHANNELS * (width - window.cols);
                at.before = CHANNELS * (at.rows ? window.tap : 0);
                at.tail = CHANNELS * (taps - (at.rows ? window.tap + (at.rows - 1) * width + window.cols : 0));
                if (at.rows == 0) {
                    at.before = at.tail;
                }
                data = (const int8_t *)in.data + window.offset;
            }
            at.stream = p->stream;
            for (int32_t channel = 0; channel < depth; channel += CHANNELS * at.groups) {
                const int32_t begin = tw_min(channel, depth - CHANNELS);
                at.groups = tw_max((depth - channel) / CHANNELS, 1);
                at.data = data + begin;
                at.to = to + begin;
                finish_groups(&p->conv, &at);
                at.stream += at.groups * 2 * (CHANNELS + 1 + taps);
            }
        }
    }
}

TW_WHOLE_FORM(tw_depthwise_conv_2d_s8_m3, tw_conv_scalar, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
