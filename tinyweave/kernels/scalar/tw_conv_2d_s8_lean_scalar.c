/* tw_conv_2d_s8_lean_scalar.c - int8 convolution in plain C for cores that multiply words one at a time: as
 * tw_conv_2d_s8_scalar, but inputs are packed in registers for each group of filters, not in scratch once for all groups.
 * tw_conv_scalar.h has the layers and the stream. */
#include "tw_conv_scalar.h"

#include "tw_conv_scalar_tile.h"

#define OUTSIDE 0xFFFFFFFFu /* a place outside of the map */

#if defined(__ARM_ARCH_7M__) && defined(__GNUC__)

/* Packs two inputs of both windows; adds them times two filters: 18 instructions of four bytes for 8 MACs. */
#define STEP(a, b, c, d, e, f)                 \
    "ldrsb.w r3, [r0, #" a "]\n"               \
    "ldrsb.w r8, [r1, #" a "]\n"               \
    "ldrsb.w r12, [r0, #" b "\n"               \
    "ldrsb.w r9, [r1, #" b "\n"                \
    "add.w r3, r3, r8, lsl #16\n"              \
    "add.w r12, r12, r9, lsl #16\n"            \
    "ldrsb.w r8, [r2, #" c "]\n"               \
    "ldrsb.w r9, [r2, #" d "]\n"               \
    "ldrsb.w r10, [r2, #" e "]\n"              \
    "ldrsb.w r11, [r2, #" f "\n"               \
    "mla r8, r3, r8, lr\n"                     \
    "mla r8, r12, r9, r8\n"                    \
    "mla r10, r3, r10, lr\n"                   \
    "mla r10, r12, r11, r10\n"                 \
    "add.w r4, r4, r8\n"                       \
    "add.w r6, r6, r8, asr #16\n"              \
    "add.w r5, r5, r10\n"                      \
    "add.w r7, r7, r10, asr #16\n"
#define PLACE(pointer) "cmp.w " pointer ", #-1\n ite eq\n moveq " pointer ", r9\n addne " pointer ", " pointer ", r8\n"

/* Computes the outputs of groups of filters for both pixels; outputs saturate to int8.
 * r0: the tile. In the loop r0, r1: inputs less 1 byte; r2: stream less 1 byte; r3, r12: packed inputs; r4, r5: sums of products;
 * r6, r7: the second pixel's sums; r8 .. r11: weights, products; lr: HALF.
 * Stack, 44 bytes: end of a run less 1 byte, place of the next run, the tile, r4 .. r11. The first round of a run begins with a
 * later step if the number of its steps is no multiple of four. Equals finish_groups() below in plain C. */
#define GROUPS                                 \
    "push {r0, r4-r11}\n"                      \
    "sub sp, #8\n"                             \
    "ldr r2, [r0]\n"                           \
    "4:\n"                                     \
    "ldr r0, [sp, #8]\n"                       \
    "ldm r2!, {r6, r7}\n"                      \
    "subs r2, #1\n"                            \
    "ldr r1, [r0, #8]\n"                       \
    "ldr r3, [r0, #16]\n"                      \
    "str r3, [sp, #4]\n"                       \
    "add.w r4, r6, r6, lsl #16\n"              \
    "sub.w r4, r4, r1\n"                       \
    "add.w r5, r7, r7, lsl #16\n"              \
    "sub.w r5, r5, r1\n"                       \
    "mov.w lr, #0x8000\n"                      \
    "3:\n"                                     \
    "ldrd r3, r10, [sp, #4]\n"                 \
    "ldrd r0, r1, [r3], #8\n"                  \
    "str r3, [sp, #4]\n"                       \
    "ldrd r8, r9, [r10, #36]\n"                \
    PLACE("r0") PLACE("r1")                    \
    "ldr.w r3, [r10, #44]\n"                   \
    "add.w r8, r0, r3\n"                       \
    "sub.w r8, r8, #1\n"                       \
    "str.w r8, [sp]\n"                         \
    "lsrs r3, r3, #1\n"                        \
    "negs r3, r3\n"                            \
    "and r3, r3, #3\n"                         \
    "sub.w r0, r0, r3, lsl #1\n"               \
    "subs r0, #1\n"                            \
    "sub.w r1, r1, r3, lsl #1\n"               \
    "subs r1, #1\n"                            \
    "sub.w r2, r2, r3, lsl #2\n"               \
    "mov.w r8, #72\n"                          \
    "adr.w r9, 1f\n"                           \
    "mla r8, r3, r8, r9\n"                     \
    "orr r8, r8, #1\n"                         \
    "bx r8\n"                                  \
    ".balign 4\n"                              \
    "1:\n"                                     \
    STEP("1", "2]", "1", "2", "3", "4]") STEP("3", "4]", "5", "6", "7", "8]") STEP("5", "6]", "9", "10", "11", "12]") \
    STEP("7", "8]!", "13", "14", "15", "16]!") \
    "ldr r3, [sp]\n"                           \
    "cmp r0, r3\n"                             \
    "bne.w 1b\n"                               \
    "ldrd r3, r8, [sp, #4]\n"                  \
    "ldr.w r8, [r8, #20]\n"                    \
    "cmp r3, r8\n"                             \
    "bne.w 3b\n"                               \
    "sub.w r4, r4, r6, lsl #16\n"              \
    "sub.w r5, r5, r7, lsl #16\n"              \
    "ldr r3, [sp, #8]\n"                       \
    "ldr r3, [r3, #12]\n"                      \
    FINISH_GROUP                               \
    "ldr r3, [sp, #8]\n"                       \
    "ldrd r0, r1, [r3, #24]\n"                 \
    PUT                                        \
    "strd r0, r1, [r3, #24]\n"                 \
    "ldr r0, [r3, #32]\n"                      \
    "subs r0, #1\n"                            \
    "str r0, [r3, #32]\n"                      \
    "bne.w 4b\n"                               \
    "add sp, #8\n"                             \
    "pop {r0, r4-r11}\n"

FINISH_GROUPS(GROUPS)

#else

/* Packs two inputs of both windows, adds them times the weights of both filters. */
#define STEP                                                         \
    do {                                                             \
        const uint32_t x0 = (uint32_t)a[0] + ((uint32_t)b[0] << 16); \
        const uint32_t x1 = (uint32_t)a[1] + ((uint32_t)b[1] << 16); \
        PRODUCTS(0);                                                 \
        PRODUCTS(1);                                                 \
        a += 2;                                                      \
        b += 2;                                                      \
        w += 4;                                                      \
    } while (0)

static inline const int8_t *place(const tile *at, uint32_t offset) { return offset == OUTSIDE ? at->outside : at->data + offset; }

TW_NOT_INLINE void finish_groups(tile *at)
{
    const int32_t zero = at->zero;
    const uint32_t *stream = at->stream;
    int8_t *to = at->to, *other = at->other;
    for (int32_t left = at->groups; left > 0; --left) {
        uint32_t other_0 = stream[0], other_1 = stream[1];
        uint32_t sum_0 = other_0 + (other_0 << 16) - at->surplus, sum_1 = other_1 + (other_1 << 16) - at->surplus;
        const int8_t *w = (const int8_t *)(stream + FILTERS);
        for (const uint32_t *of = at->inputs; of != at->end; of += 2) {
            const int8_t *a = place(at, of[0]), *b = place(at, of[1]), *const end = a + at->run;
            if (at->run & 2) {
                STEP;
            }
            while (a != end) {
                STEP;
                STEP;
            }
        }
        PUT_GROUP;
    }
}

#endif

/* Whether a window is inside the map. */
static inline int is_whole(const tw_conv_shape *p, const tw_window *window)
{
    return window->rows == p->kernel.h && window->cols == p->kernel.w;
}

/* Lists the runs of a window: its rows, or its taps. */
static uint32_t *list(const tw_conv_shape *p, const tw_window *window, int by_rows, uint32_t *to)
{
    const int32_t top = window->row_tap / p->kernel.w, left = window->tap - window->row_tap;
    int32_t row = window->offset;
    for (int32_t y = 0; y < p->kernel.h; ++y) {
        const int is_inside = tw_is_in(y - top, window->rows);
        for (int32_t x = 0; x < (by_rows ? 1 : p->kernel.w); ++x, to += 2) {
            *to = is_inside && tw_is_in(x - left, window->cols) ? (uint32_t)(row + (x - left) * window->pixel) : OUTSIDE;
        }
        row = is_inside ? tw_down(row, window->step, window->ring) : row;
    }
    return to;
}

void tw_conv_2d_s8_lean_scalar_part(const tw_conv_scalar *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv_shape *const shape = &p->conv;
    const int32_t taps = shape->kernel.h * shape->kernel.w, depth = shape->in.c, bottom = shape->in.h - shape->kernel.h;
    uint32_t *const runs = (uint32_t *)scratch;
    int8_t *const outside = (int8_t *)(runs + 2 * taps), *waiting = 0; /* waiting: the outputs of a first pixel without a second */
    const int32_t steps = taps * depth / 2;
    tile at = {p->stream, 0, (uint32_t)steps * HALF, shape->out_zero, runs, runs, 0, 0, 0, (const int8_t *)in.data, outside, 0};
    tw_window first;
    if (shape->pad.h > 0 || shape->pad.w > 0 || (shape->out.h - 1) * shape->stride.h > bottom ||
        (shape->out.w - 1) * shape->stride.w > shape->in.w - shape->kernel.w) {
        for (int32_t i = 0; i < depth; ++i) {
            outside[i] = (int8_t)shape->in_zero;
        }
    }
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, shape->out.c);
        tw_window window = tw_window_of(shape, &in, y, depth);
        for (int32_t x = range.col_begin; x < range.col_end; ++x, to += shape->out.c) {
            tw_window_cols(shape, &window, x);
            const int is_last = x + 1 == range.col_end && y + 1 == range.row_end;
            if (!waiting) {
                waiting = to;
                first = window;
                if (!is_last) {
                    continue;
                }
            }
            const int by_rows = is_whole(shape, &first) && is_whole(shape, &window);
            at.run = by_rows ? shape->kernel.w * depth : depth;
            list(shape, &first, by_rows, runs);
            at.end = list(shape, &window, by_rows, runs + 1) - 1;
            tw_multiply_tile(p, &at, steps, waiting, to, finish_groups);
            waiting = 0;
        }
    }
}

TW_WHOLE_FORM_SCRATCH(tw_conv_2d_s8_lean_scalar, tw_conv_scalar, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
