/* tw_fully_connected_dsp_loop.h - loops of the dense layers with the Arm DSP extension: rows, groups of eight filters, quads of
 * inputs.
 *
 * The including file defines LANE_WEIGHTS, the weights in a lane of the stream: 2 of int8 or 4 of int4; and LANE_OFFSET, which
 * the stream adds to each weight of an even filter: 0, 128 for int8 or 8 for int4. With TW_HAS_DSP it also defines, but for
 * int8 weights without an offset, either
 * - STEP(x): the products of the two inputs in register x, r2 or r3, with eight filters of the stream at r1; sums in r4 .. r11,
 *   r12 and lr are free; LOAD_FIRST and LOADED_STEP(x): the first load of a STEP, and all instructions after this load; and
 *   SKIPPED_QUAD: bytes of code of a QUAD below; or
 * - PRODUCTS, all of the assembly with the registers of PRODUCTS below; SKIPPED_QUAD is then the unit of `skip`.
 */
#ifndef TW_FULLY_CONNECTED_DSP_LOOP_H
#define TW_FULLY_CONNECTED_DSP_LOOP_H

#ifdef LANE_WEIGHTS

#include "tw_dsp.h"
#include "tw_fully_connected_dsp.h"
#include "tw_fully_connected_dsp_rows.h"

#define QUADS_UNROLLED 4 /* so that with the rest of the code they fit a cache of 1 KB */

#if TW_HAS_DSP

#ifndef PRODUCTS

#ifndef STEP

/* Two inputs, in register x, times two pairs of filters, whose sums are the other operands. r12, lr: the packed weights of each
 * pair.
 * Order: SMLAD with a packed word adds to the pair's odd filter; only then SXTB16 replaces it by the even filter's weights.
 * Equals tw_add_two_s8 for each pair. */
#define PAIR(x, low_0, high_0, low_1, high_1)           \
    "smlad " high_0 ", " x ", r12, " high_0 "\n"        \
    "sxtb16 r12, r12\n"                                 \
    "smlad " high_1 ", " x ", lr, " high_1 "\n"         \
    "sxtb16 lr, lr\n"                                   \
    "smlad " low_0 ", " x ", r12, " low_0 "\n"          \
    "smlad " low_1 ", " x ", lr, " low_1 "\n"
#define LOAD_PAIR "ldm.w r1!, {r12, lr}\n"
/* The same by two loads. Directly after another load they take 2 cycles on a Cortex-M4, LDM 3. */
#define LOAD_FIRST "ldr lr, [r1, #4]\nldr r12, [r1], #8\n"
#define LOADED_STEP(x) PAIR(x, "r4", "r5", "r6", "r7") LOAD_PAIR PAIR(x, "r8", "r9", "r10", "r11")
#define STEP(x) LOAD_PAIR LOADED_STEP(x)
#define SKIPPED_QUAD 128 /* 32 instructions of four bytes */

#endif

/* Four inputs times eight filters: one load, widened to lanes (k, k + 2) in r2 and (k + 1, k + 3) in r3. The first weights are
 * loaded directly after the inputs, since a Cortex-M4 overlaps neighbouring loads. */
#define QUAD                   \
    "ldr r3, [r0], #4\n"       \
    LOAD_FIRST                 \
    "sxtb16 r2, r3\n"          \
    "sxtb16 r3, r3, ror #8\n"  \
    LOADED_STEP("r2") STEP("r3")

/* All quads of a row times eight filters.
 * Registers at entry: r0: inputs; r1: stream; r2: end of the inputs; r3: where the sums go; r12: bytes of code to skip; lr:
 * initial sums. In the loop r2, r3: inputs; r4 .. r11: sums; r12, lr: weights.
 * Stack, 40 bytes: r4 .. r11, saved here since the code needs all registers; below them [sp] end of the inputs, +4 where sums
 * go.
 * Loop: four quads per round. The first round enters at label 1 + r12: PC reads as label 1, so ADD takes the offset.
 * Order: all eight sums stay in registers, so that a quad of inputs is loaded and widened once for eight filters.
 * Equals products() below in plain C. */
#define PRODUCTS               \
    "push {r4-r11}\n"          \
    "push {r2, r3}\n"          \
    "ldm lr, {r4-r11}\n"       \
    "add pc, r12\n"            \
    "nop\n"                    \
    "1:\n"                     \
    ".rept 4\n" QUAD ".endr\n"  \
    "ldr r2, [sp]\n"           \
    "cmp r0, r2\n"             \
    "bne.w 1b\n"               \
    "ldr r3, [sp, #4]\n"       \
    "stm r3, {r4-r11}\n"       \
    "add sp, sp, #8\n"         \
    "pop {r4-r11}\n"

#endif

/* Sets sums = begin + the products of `quads` quads of inputs with eight filters; returns the end of their stream. */
static inline const uint32_t *products(const int8_t *x, int32_t quads, const uint32_t *stream, const void *begin, int32_t *sums)
{
    register const int8_t *from __asm__("r0") = x;
    register const uint32_t *words __asm__("r1") = stream;
    register const int8_t *end __asm__("r2") = x + 4 * quads;
    register int32_t *to __asm__("r3") = sums;
    register uint32_t skip __asm__("r12") = (uint32_t)(-quads & (QUADS_UNROLLED - 1)) * SKIPPED_QUAD;
    register const void *given __asm__("lr") = begin;
    __asm__ volatile(PRODUCTS : "+r"(from), "+r"(words), "+r"(end), "+r"(to), "+r"(skip), "+r"(given) : : "cc", "memory");
    return words;
}

#else

#if LANE_WEIGHTS == 4
#define add_lane tw_add_w4
#else
/* Adds the products of two inputs with two filters. */
static inline void add_lane(uint32_t x, uint32_t weights, int32_t *sums)
{
    sums[0] = tw_smlad(x, LANE_OFFSET ? weights & 0x00FF00FFu : tw_sxtb16(weights), sums[0]);
    sums[1] = tw_smlad(x, weights, sums[1]);
}
#endif

/* Adds the products of two inputs with eight filters; returns the end of their stream. */
static inline const uint32_t *add(uint32_t x, const uint32_t *stream, int32_t *sums)
{
    for (int32_t filter = 0; filter < TW_FILTERS; filter += LANE_WEIGHTS, ++stream) {
        add_lane(x, *stream, sums + filter);
    }
    return stream;
}

static inline const uint32_t *products(const int8_t *x, int32_t quads, const uint32_t *stream, const void *begin, int32_t *sums)
{
    memmove(sums, begin, TW_FILTERS * sizeof *sums);
    for (int32_t i = 0; i < quads; ++i) {
        const uint32_t word = tw_word(x + 4 * i);
        stream = add(tw_sxtb16_odd(word), add(tw_sxtb16(word), stream, sums), sums);
    }
    return stream;
}

#endif

/* The term that all sums of a row share: -LANE_OFFSET times the sum of the inputs. */
static inline int32_t shared_of(const int8_t *from, int32_t depth)
{
    int32_t sum = 0, i = 0;
    for (; LANE_OFFSET && i + 4 <= depth; i += 4) {
        sum = tw_usada8(tw_word(from + i) ^ 0x80808080u, 0, sum); /* of inputs + 128 */
    }
    sum -= 128 * i;
    for (; LANE_OFFSET && i < depth; ++i) {
        sum += from[i];
    }
    return -LANE_OFFSET * sum;
}

#if LANE_WEIGHTS == 4
#define begin_four tw_begin_w4
#define LANE_SUM tw_sum_w4
#else
#define LANE_SUM tw_sum_s8
/* Sets four sums to initial sums of the stream plus `shared`. */
static inline void begin_four(const uint32_t *stream, int32_t shared, int32_t *sums)
{
    sums[0] = tw_signed(stream[0] + (uint32_t)shared);
    sums[1] = tw_signed(stream[1] + (uint32_t)shared);
    sums[2] = tw_signed(stream[2] + (uint32_t)shared);
    sums[3] = tw_signed(stream[3] + (uint32_t)shared);
}
#endif

/* Returns the eight initial sums, in the stream or computed in `sums`. */
static inline const void *begin_of(const uint32_t *stream, int32_t shared, int32_t *sums)
{
    if (!LANE_OFFSET) {
        return stream;
    }
    begin_four(stream, shared, sums);
    begin_four(stream + 4, shared, sums + 4);
    return sums;
}

/* The sum of filter i of four. */
static inline int32_t sum_of(const int32_t *sums, int32_t i) { return LANE_SUM(sums, i, 0); }

/* Computes eight outputs with the same factor. */
static inline void finish_alike(const int32_t *sums, const tw_factor *of_all, int32_t zero, int8_t *to)
{
    const tw_factor factor = *of_all; /* a copy, since stores through `to` might change the original */
    for (const int32_t *const end = sums + TW_FILTERS; sums != end; sums += 4) {
        const int32_t first = sum_of(sums, 0), second = sum_of(sums, 1), third = sum_of(sums, 2), fourth = sum_of(sums, 3);
        to[0] = rescale(first, factor, zero);
        to[1] = rescale(second, factor, zero);
        to[2] = rescale(third, factor, zero);
        to[3] = rescale(fourth, factor, zero);
        to += 4;
    }
}

/* Computes the outputs of filter `unit` and those after it, each with its own factor. */
static void finish(const tw_dense *p, int32_t unit, const int32_t *sums, int32_t count, int8_t *to)
{
    for (int32_t i = 0; i < count; ++i) {
        to[i] = rescale(sum_of(sums + (i & ~3), i & 3), factor_of(p, unit + i), p->out_zero);
    }
}

/* Computes the outputs of at most eight filters from `unit` on. of_all: the factor of all filters, if they share it. */
static inline void put(const tw_dense *p, const tw_factor *of_all, int32_t unit, const int32_t *sums, int8_t *to)
{
    const int32_t count = tw_min(TW_FILTERS, p->out.c - unit);
    if (p->per_channel) {
        finish(p, unit, sums, count, to + unit);
    } else {
        int8_t outputs[TW_FILTERS], *const whole = count == TW_FILTERS ? to + unit : outputs;
        finish_alike(sums, of_all, p->out_zero, whole);
        if (whole == outputs) {
            memcpy(to + unit, outputs, (size_t)count);
        }
    }
}

/* Computes a range of the output. */
static inline void all_products(const tw_fully_connected_dsp *params, tw_view in, tw_view out, tw_range range)
{
    const tw_dense *p = &params->dense;
    const int32_t depth = p->in.c, quads = depth / 4, rest = depth % 4, units = p->out.c;
    const tw_factor factor = factor_of(p, 0);
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *from = (const int8_t *)tw_pixel(&in, y, range.col_begin, depth);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, units);
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            const uint32_t *stream = params->stream;
            const int32_t shared = shared_of(from, depth);
            for (int32_t unit = 0; unit < units; unit += TW_FILTERS) {
                int32_t sums[TW_FILTERS];
                const void *begin = begin_of(stream, shared, sums);
                stream += TW_FILTERS;
                if (quads > 0) {
                    stream = products(from, quads, stream, begin, sums);
                    begin = sums;
                }
                if (rest > 0) {
                    int8_t last[4] = {0, 0, 0, 0};
                    for (int32_t i = 0; i < rest; ++i) {
                        last[i] = from[4 * quads + i];
                    }
                    stream = products(last, 1, stream, begin, sums);
                }
                put(p, &factor, unit, sums, to);
            }
            tw_clamp_all(to, units, p->out_min, p->out_max);
            to += units;
            from += depth;
        }
    }
}

/* Copies `count` sums. */
static inline void copy_sums(int32_t *to, const int32_t *from, int32_t count)
{
    for (int32_t i = 0; i < count; ++i) {
        to[i] = from[i];
    }
}

/* Adds the products of rows of a map to packed sums, and computes all outputs with the last row. */
static inline void add_rows(const tw_fully_connected_dsp *params, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const tw_dense *p = &params->dense;
    const int32_t units = p->out.c, rest = units % TW_FILTERS, row = in.row_stride;
    const int32_t words = row * 4 / LANE_WEIGHTS, group = TW_FILTERS + p->in.c * 4 / LANE_WEIGHTS; /* of eight filters */
    int32_t last[TW_FILTERS] = {0}; /* the sums of the last group, if it has fewer filters */
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0);
        const uint32_t *stream = params->stream;
        const int32_t shared = shared_of(from, row);
        copy_sums(last, sums + units - rest, y == 0 ? 0 : rest);
        for (int32_t unit = 0; unit < units; unit += TW_FILTERS, stream += group) {
            int32_t *const to = unit + rest == units ? last : sums + unit;
            const void *const begin = begin_of(y == 0 ? stream : (const uint32_t *)to, shared, to);
            products(from, row / 4, stream + TW_FILTERS + y * words, begin, to);
        }
        copy_sums(sums + units - rest, last, rest);
    }
    if (range.row_end * row == p->in.c) {
        const tw_factor factor = factor_of(p, 0);
        for (int32_t unit = 0; unit < units; unit += TW_FILTERS) {
            put(p, &factor, unit, unit + rest == units ? last : sums + unit, (int8_t *)out);
        }
        tw_clamp_all((int8_t *)out, units, p->out_min, p->out_max);
    }
}

/* Defines the forms of a kernel. */
#define TW_FULLY_CONNECTED_DSP_FORMS(kernel)                                                                          \
    TW_FORMS(kernel, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out), p->dense.out,    \
             all_products(p, in, out, range))                                                                         \
    void kernel##_rows(const tw_fully_connected_dsp *p, tw_view in, void *out, tw_range range, int32_t *sums)         \
    {                                                                                                                 \
        add_rows(p, in, out, range, sums);                                                                            \
    }

#endif
#endif
