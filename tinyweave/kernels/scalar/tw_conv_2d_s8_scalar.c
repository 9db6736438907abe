/* tw_conv_2d_s8_scalar.c - int8 convolution for cores that multiply words one at a time: two pixels times two filters, with one
 * multiplication for both pixels.
 *
 * im2col packs an input of both pixels into a word, first + 2^16 * second. Words times weights, summed over two inputs, are the
 * sums of both pixels, each of 16 bits: the requirements bound the weights. tw_conv_scalar.h has the layers and the stream. */
#include "tw_conv_scalar.h"

#include "tw_conv_scalar_tile.h"

#if defined(__ARM_ARCH_7M__) && defined(__GNUC__)

/* Two inputs of both windows times two filters: 13 instructions of four bytes for 8 MACs. Loads in a row, none of whose addresses
 * the one before changes, take a cycle less. */
#define STEP(inputs, a, b, c, d)               \
    "ldrd r3, r12, [r0, #" inputs "\n"         \
    "ldrsb.w r8, [r2, #" a "]\n"               \
    "ldrsb.w r9, [r2, #" b "]\n"               \
    "ldrsb.w r10, [r2, #" c "]\n"              \
    "ldrsb.w r11, [r2, #" d "\n"               \
    "mla r8, r3, r8, lr\n"                     \
    "mla r8, r12, r9, r8\n"                    \
    "mla r10, r3, r10, lr\n"                   \
    "mla r10, r12, r11, r10\n"                 \
    "add.w r4, r4, r8\n"                       \
    "add.w r6, r6, r8, asr #16\n"              \
    "add.w r5, r5, r10\n"                      \
    "add.w r7, r7, r10, asr #16\n"

/* Computes the outputs of groups of filters for both pixels; outputs saturate to int8.
 * Registers at entry: r0: the tile. In the loop r0: inputs less 8 bytes; r1: their end less 8 bytes; r2: stream less 1 byte;
 * r3, r12: inputs; r4, r5: sums of products; r6, r7: the second pixel's sums; r8 .. r11: weights, products; lr: HALF. At the end
 * of a group r3: zero point.
 * Stack, 68 bytes: bytes from the weights to r2 at the entry of the loop, its address, the members from surplus on; r4 .. r11.
 * The first round begins with a later step if the number of steps is no multiple of four. Equals finish_groups() below in plain
 * C. */
#define GROUPS                                 \
    "push {r4-r11}\n"                          \
    "ldm r0, {r2, r4-r11}\n"                   \
    "adr.w r12, 1f\n"                          \
    "mov r3, #52\n"                            \
    "mla r12, r4, r3, r12\n"                   \
    "add.w r3, r4, #1\n"                       \
    "sub.w r7, r7, r3, lsl #3\n"               \
    "sub.w r8, r8, #8\n"                       \
    "lsl.w r3, r4, #2\n"                       \
    "adds r3, #1\n"                            \
    "orr r4, r12, #1\n"                        \
    "push {r3-r11}\n"                          \
    "2:\n"                                     \
    "ldm r2!, {r6, r7}\n"                      \
    "ldm sp, {r0, r3, r12}\n"                  \
    "sub r2, r0\n"                             \
    "ldrd r0, r1, [sp, #16]\n"                 \
    "mov lr, #0x8000\n"                        \
    "add.w r4, r6, r6, lsl #16\n"              \
    "sub.w r4, r4, r12\n"                      \
    "add.w r5, r7, r7, lsl #16\n"              \
    "sub.w r5, r5, r12\n"                      \
    "bx r3\n"                                  \
    ".balign 4\n"                              \
    "1:\n"                                     \
    STEP("8]", "1", "2", "3", "4]") STEP("16]", "5", "6", "7", "8]") STEP("24]", "9", "10", "11", "12]") \
    STEP("32]!", "13", "14", "15", "16]!")     \
    "cmp r0, r1\n"                             \
    "bne.w 1b\n"                               \
    "sub.w r4, r4, r6, lsl #16\n"              \
    "sub.w r5, r5, r7, lsl #16\n"              \
    "ldr r3, [sp, #12]\n"                      \
    FINISH_GROUP                               \
    "ldrd r0, r1, [sp, #24]\n"                 \
    PUT                                        \
    "strd r0, r1, [sp, #24]\n"                 \
    "ldr r0, [sp, #32]\n"                      \
    "subs r0, #1\n"                            \
    "str r0, [sp, #32]\n"                      \
    "bne.w 2b\n"                               \
    "add sp, #36\n"                            \
    "pop {r4-r11}\n"

FINISH_GROUPS(GROUPS)

#else

/* Adds two inputs times the weights of both filters. */
#define STEP                                 \
    do {                                     \
        const uint32_t x0 = x[0], x1 = x[1]; \
        PRODUCTS(0);                         \
        PRODUCTS(1);                         \
        x += 2;                              \
        w += 4;                              \
    } while (0)

/* Computes the outputs of groups of filters for both pixels. Not inlined, so that the loop has all registers. */
TW_NOT_INLINE void finish_groups(tile *at)
{
    const int32_t zero = at->zero;
    const uint32_t *stream = at->stream;
    int8_t *to = at->to, *other = at->other;
    for (int32_t left = at->groups; left > 0; --left) {
        uint32_t other_0 = stream[0], other_1 = stream[1];
        uint32_t sum_0 = other_0 + (other_0 << 16) - at->surplus, sum_1 = other_1 + (other_1 << 16) - at->surplus;
        const int8_t *w = (const int8_t *)(stream + FILTERS);
        const uint32_t *x = at->inputs;
        if ((at->end - x) & 2) {
            STEP;
        }
        while (x != at->end) {
            STEP;
            STEP;
        }
        PUT_GROUP;
    }
}

#endif

/* Packs `count` inputs of the first or the second pixel, zero points if `from` is null. */
static uint32_t *pack(uint32_t *to, const int8_t *from, int32_t zero, int32_t count, int is_second)
{
    for (uint32_t *const end = to + count; to != end; ++to) {
        const uint32_t value = (uint32_t)(from ? *from++ : zero);
        *to = is_second ? *to + (value << 16) : value;
    }
    return to;
}

/* Packs the window of one pixel. */
static void take(const tw_conv_shape *p, const tw_window *window, const int8_t *data, uint32_t *to, int is_second)
{
    const int32_t depth = p->in.c, row = p->kernel.w * depth, run = window->cols * depth;
    const int32_t first = window->row_tap / p->kernel.w, before = (window->tap - window->row_tap) * depth;
    int32_t offset = window->offset;
    for (int32_t y = 0; y < p->kernel.h; ++y) {
        if (y < first || y >= first + window->rows || run == 0) {
            to = pack(to, 0, p->in_zero, row, is_second);
            continue;
        }
        to = pack(to, 0, p->in_zero, before, is_second);
        to = pack(to, data + offset, 0, run, is_second);
        to = pack(to, 0, p->in_zero, row - before - run, is_second);
        offset = tw_down(offset, window->step, window->ring);
    }
}

/* Packs the windows of two neighbours in a row, both inside the map's columns; window: the first one's. */
static void take_both(const tw_conv_shape *p, const tw_window *window, const int8_t *data, uint32_t *to)
{
    const int32_t row = p->kernel.w * p->in.c, next = p->stride.w * p->in.c, first = window->row_tap / p->kernel.w;
    int32_t offset = window->offset;
    for (int32_t y = 0; y < p->kernel.h; ++y) {
        uint32_t *const end = to + row;
        if (y < first || y >= first + window->rows) {
            while (to != end) {
                *to++ = (uint32_t)p->in_zero * 0x10001u;
            }
            continue;
        }
        for (const int8_t *from = data + offset, *other = from + next; to != end; ++to) {
            *to = (uint32_t)*from++ + ((uint32_t)*other++ << 16);
        }
        offset = tw_down(offset, window->step, window->ring);
    }
}

void tw_conv_2d_s8_scalar_part(const tw_conv_scalar *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv_shape *shape = &p->conv;
    const tw_span within = tw_within(shape, range);
    const int32_t taps = shape->kernel.h * shape->kernel.w * shape->in.c, steps = (taps + 1) / 2;
    const int8_t *const data = (const int8_t *)in.data;
    uint32_t *const packed = (uint32_t *)scratch;
    int8_t *waiting = 0; /* outputs of a first pixel without a second */
    tile at;
    at.lead = -steps & 3;
    at.surplus = (uint32_t)steps * HALF;
    at.zero = shape->out_zero;
    at.inputs = packed;
    at.end = packed + 2 * steps;
    packed[2 * steps - 1] = 0;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, shape->out.c);
        tw_window window = tw_window_of(shape, &in, y, shape->in.c);
        for (int32_t x = range.col_begin; x < range.col_end; ++x, to += shape->out.c) {
            tw_window_cols(shape, &window, x);
            if (!waiting && x >= within.begin && x + 1 < within.end) {
                take_both(shape, &window, data, packed);
                waiting = to;
                to += shape->out.c;
                ++x;
            } else {
                take(shape, &window, data, packed, waiting != 0);
                if (!waiting) {
                    waiting = to;
                    continue;
                }
            }
            tw_multiply_tile(p, &at, steps, waiting, to, finish_groups);
            waiting = 0;
        }
    }
    if (waiting) {
        tw_multiply_tile(p, &at, steps, waiting, waiting, finish_groups);
    }
}

TW_WHOLE_FORM_SCRATCH(tw_conv_2d_s8_scalar, tw_conv_scalar, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
