/* tw_conv_2d_s8_few_dsp.c - int8 convolution of single pixels to at most three channels, with the Arm DSP extension: two pixels
 * times two filters at a time.
 *
 * Weights: the stream of tw_few_dsp.h for each two filters, the last group may have one; then a multiplier and a power per
 * filter (tw_rescale_doubled). The kernels of tw_conv_pairs.h would compute four channels, and copy the inputs to scratch first.
 *
 * Cost: 15 instructions per 16 MACs of two filters, 11 per 8 MACs of a single one. If a call computes one pixel only: 8 per 8
 * MACs, 6 per 4 MACs.
 */
#include "tw_conv_dsp.h"

#include "tw_few_dsp.h"

#define MOST 4 /* filters: two groups */

/* Two pixels and the next group of filters. The assembly loads the members in this order. */
typedef struct {
    const int8_t *x[2];      /* inputs of both pixels; equal for a single pixel */
    const uint32_t *stream;  /* of the group; then of the next group */
    const int8_t *end;       /* of the whole quads of pixel 0, at least one */
    int32_t back;            /* tw_few_back */
    int32_t *sums;           /* of pixel 0 with the group, and of pixel 1, MOST further on; then of the next group */
} tw_few;

#if TW_HAS_DSP

/* Sums of two filters, alternately, since a Cortex-M7 waits for a sum that the next instruction adds to. One filter has two
 * sums for the same reason. */
#define TWO(pointer, first, second)              \
    TW_FEW_INPUTS(pointer)                       \
    "smlad " first ", r9, r10, " first "\n"      \
    "smlad " second ", r9, r12, " second "\n"    \
    "smlad " first ", r8, r11, " first "\n"      \
    "smlad " second ", r8, lr, " second "\n"
#define ONE(pointer, sum, other) TW_FEW_INPUTS(pointer) TW_FEW_PRODUCTS(sum, other, "r10", "r11")

/* The weights of a quad, and their products with one pixel or two. */
#define TWO_WEIGHTS "ldm r2!, {r10-r12, lr}\n"
#define ONE_WEIGHTS "ldrd r10, r11, [r2], #8\n"
#define TWO_BY_ONE TWO_WEIGHTS TWO("r0", "r4", "r5")
#define TWO_BY_TWO TWO_BY_ONE TWO("r1", "r6", "r7")
#define ONE_BY_ONE ONE_WEIGHTS ONE("r0", "r4", "r5")
#define ONE_BY_TWO ONE_BY_ONE ONE("r1", "r6", "r7")

/* All quads of one pixel or two times a group of filters. The sums of a second pixel that there is not are never read.
 * Registers at entry: r0: a tw_few. In the loop r0, r1: inputs of both pixels; r2: stream; r3: end of the whole quads of pixel
 * 0; r4 .. r7: sums; r8, r9: inputs; r10 .. r12, lr: weights.
 * Stack, 36 bytes: r0; r4 .. r11.
 * Loop: two quads per round; the first round of an odd number of quads enters at label 2.
 * Order: one LDM loads all weights, since a second one would take a cycle more on a Cortex-M4. The loads of both pixels do not
 * follow each other, which would save a cycle, since no register is left for the inputs of the second one.
 * Equals add_products() below in plain C. The sums of pixel 1 are 4 * MOST bytes after those of pixel 0. */
#define GROUP(load_sums, quad, end_sums) \
    "push {r0, r4-r11}\n"                \
    "ldm r0, {r0-r3}\n"                  \
    load_sums                            \
    "sub r8, r3, r0\n"                   \
    "tst r8, #4\n"                       \
    "bne 2f\n"                           \
    "1:\n" quad                          \
    "2:\n" quad                          \
    "cmp r0, r3\n"                       \
    "bne 1b\n"                           \
    "ldr r8, [sp]\n"                     \
    "ldr r8, [r8, #16]\n"                \
    "cmp r8, #0\n"                       \
    "beq 3f\n"                           \
    "add r0, r0, r8\n"                   \
    "add r1, r1, r8\n" quad              \
    "3:\n" end_sums                      \
    "pop {r0}\n"                         \
    "ldr r8, [r0, #20]\n"                \
    "strd r4, r5, [r8], #8\n"            \
    "strd r6, r7, [r8, #8]\n"            \
    "str r8, [r0, #20]\n"                \
    "str r2, [r0, #8]\n"                 \
    "pop {r4-r11}\n"
#define TWO_FILTERS(quad) GROUP("ldm r2!, {r4, r5}\nmov r6, r4\nmov r7, r5\n", quad, "")
#define ONE_FILTER(quad) \
    GROUP("ldr r4, [r2], #4\nmov r6, r4\nmov r5, #0\nmov r7, #0\n", quad, "add r4, r4, r5\nadd r6, r6, r7\n")

static inline void add_products(tw_few *few, int32_t filters)
{
    if (few->x[0] == few->x[1]) {
        if (filters == 2) {
            TW_RUN(TWO_FILTERS(TWO_BY_ONE), few);
        } else {
            TW_RUN(ONE_FILTER(ONE_BY_ONE), few);
        }
    } else if (filters == 2) {
        TW_RUN(TWO_FILTERS(TWO_BY_TWO), few);
    } else {
        TW_RUN(ONE_FILTER(ONE_BY_TWO), few);
    }
}

#else

static void add_products(tw_few *few, int32_t filters)
{
    for (int32_t pixel = 0; pixel < 2; ++pixel) {
        for (int32_t i = 0; i < filters; ++i) {
            few->sums[MOST * pixel + i] = tw_signed(few->stream[i]);
        }
    }
    few->stream += filters;
    const int32_t whole = (int32_t)(few->end - few->x[0]);
    for (int32_t at = 0; at < whole - few->back; at += 4) {
        for (int32_t i = 0; i < filters; ++i, few->stream += 2) {
            for (int32_t pixel = 0; pixel < 2; ++pixel) {
                const uint32_t word = tw_word(few->x[pixel] + at + (at == whole ? few->back : 0));
                int32_t *const sum = &few->sums[MOST * pixel + i];
                *sum = tw_smlad(tw_sxtb16_odd(word), few->stream[1], tw_smlad(tw_sxtb16(word), few->stream[0], *sum));
            }
        }
    }
    few->sums += 2;
}

#endif

/* Computes the outputs of two pixels, or of a single one. */
TW_NOT_INLINE void two_pixels(const tw_conv_dsp *params, const int8_t *x0, const int8_t *x1, int8_t *to_0, int8_t *to_1)
{
    const tw_conv *p = &params->conv;
    const int32_t depth = p->in.c, units = p->out.c, zero = p->out_zero, low = p->out_min, high = p->out_max;
    const int32_t sign = params->sign;
    uint32_t words[2];
    int32_t sums[2 * MOST];
    tw_few few = {{x0, x1}, params->stream, x0 + (depth & ~3), tw_few_back(depth), sums};
    if (depth < 4) {
        words[0] = tw_few_word(x0, depth);
        words[1] = tw_few_word(x1, depth);
        few.x[0] = (const int8_t *)&words[0];
        few.x[1] = (const int8_t *)&words[1];
        few.end = few.x[1];
        few.back = 0;
    }
    for (int32_t left = units; left > 0; left -= 2) {
        add_products(&few, tw_min(left, 2));
    }
    const uint32_t *factors = few.stream;
    for (int32_t i = 0; i < units; ++i, factors += 2) {
        const int32_t multiplier = tw_signed(factors[0]), power = tw_signed(factors[1]);
        to_0[i] = (int8_t)tw_clamp(tw_rescale_doubled(2 * sums[i], multiplier, power, zero, sign), low, high);
        if (to_1 != to_0) {
            to_1[i] = (int8_t)tw_clamp(tw_rescale_doubled(2 * sums[MOST + i], multiplier, power, zero, sign), low, high);
        }
    }
}

/* A pixel that waits for its successor, which may be in the next row; inputs NULL: none. */
typedef struct { const int8_t *x; int8_t *to; } tw_waiting;

/* Computes `count` pixels that follow each other, after the one that waits. */
static inline void some_pixels(const tw_conv_dsp *params, tw_waiting *waiting, const int8_t *from, int8_t *to, int32_t count)
{
    for (; count > 0; --count) {
        if (waiting->x) {
            two_pixels(params, waiting->x, from, waiting->to, to);
            waiting->x = NULL;
        } else {
            waiting->x = from;
            waiting->to = to;
        }
        from += params->conv.in.c;
        to += params->conv.out.c;
    }
}

/* Computes the pixel that waits, if there is one. */
static inline void last_pixel(const tw_conv_dsp *params, const tw_waiting *waiting)
{
    if (waiting->x) {
        two_pixels(params, waiting->x, waiting->x, waiting->to, waiting->to);
    }
}

void tw_conv_2d_s8_few_dsp_part(const tw_conv_dsp *p, tw_view in, tw_view out, tw_range range)
{
    tw_waiting waiting = {NULL, NULL};
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, range.col_begin, p->conv.in.c);
        int8_t *const to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->conv.out.c);
        some_pixels(p, &waiting, from, to, range.col_end - range.col_begin);
    }
    last_pixel(p, &waiting);
}

/* Pixels of a whole map follow each other. Views of it would take longer than the products of small layers. */
void tw_conv_2d_s8_few_dsp(const tw_conv_dsp *p, const void *in, void *out)
{
    tw_waiting waiting = {NULL, NULL};
    some_pixels(p, &waiting, (const int8_t *)in, (int8_t *)out, p->conv.out.h * p->conv.out.w);
    last_pixel(p, &waiting);
}
