/* tw_fully_connected_s8_few_dsp.c - int8 dense layer with at most four outputs, with the Arm DSP extension.
 * tw_fully_connected_dsp.h has the layout of the weights and the cost.
 *
 * A lane holds one weight, not those of two filters: no sum is too large, and no weight is unpacked. The stream is longer, but
 * not longer than that of a group of eight filters. */
#include "tw_fully_connected_dsp.h"

#include "tw_fully_connected_dsp_rows.h"

#define MOST 4 /* outputs */

#if TW_HAS_DSP

/* The weights of the next filter; its products, each added to a sum. */
#define WEIGHTS "ldrd r10, r11, [r1], #8\n"
#define PRODUCTS(sum, other)                       \
    "smlad " sum ", r9, r10, " sum "\n"            \
    "smlad " other ", r8, r11, " other "\n"
#define ONE PRODUCTS("r4", "r5") /* two sums, since a Cortex-M7 waits for a sum that the next instruction adds to */
#define TWO PRODUCTS("r4", "r4") WEIGHTS PRODUCTS("r5", "r5")
#define THREE TWO WEIGHTS PRODUCTS("r6", "r6")
#define FOUR THREE WEIGHTS PRODUCTS("r7", "r7")

/* A quad of inputs: one load, widened to lanes (k, k + 2) in r9 and (k + 1, k + 3) in r8, times the filters. */
#define QUAD(filters)              \
    "ldr r8, [r0], #4\n" WEIGHTS   \
    "sxtb16 r9, r8\n"              \
    "sxtb16 r8, r8, ror #8\n" filters

/* All quads of a row.
 * Registers at entry: r0: inputs; r1: stream; r2: end of the inputs; r3: MOST sums; r12: bytes of inputs. In the loop r4 .. r7:
 * sums; r8, r9: inputs; r10, r11: weights.
 * Stack, 32 bytes: r4 .. r11, saved here since compilers do not give that many registers without optimisation.
 * Loop: two quads per round; the first round of an odd number of quads enters at label 2. Equals add_quad() below for each quad. */
#define QUADS(filters)                                 \
    __asm__ volatile("push {r4-r11}\n"                 \
                     "ldm r3, {r4-r7}\n"               \
                     "tst r12, #4\n"                   \
                     "bne 2f\n"                        \
                     "1:\n" QUAD(filters)              \
                     "2:\n" QUAD(filters)              \
                     "cmp r0, r2\n"                    \
                     "bne 1b\n"                        \
                     "stm r3, {r4-r7}\n"               \
                     "pop {r4-r11}\n"                  \
                     : "+r"(from), "+r"(words)         \
                     : "r"(stop), "r"(to), "r"(bytes)  \
                     : "cc", "memory")

/* Adds the products of the inputs from x to `end`, in quads, with one to four filters; returns the end of their stream. */
TW_NOT_INLINE const uint32_t *add_products(const int8_t *x, const int8_t *end, const uint32_t *stream, int32_t filters,
                                           int32_t *sums)
{
    register const int8_t *from __asm__("r0") = x;
    register const uint32_t *words __asm__("r1") = stream;
    register const int8_t *stop __asm__("r2") = end;
    register int32_t *to __asm__("r3") = sums;
    register int32_t bytes __asm__("r12") = end - x;
    if (bytes == 0) {
        return words;
    }
    if (filters == 1) {
        QUADS(ONE);
        sums[0] = tw_signed((uint32_t)sums[0] + (uint32_t)sums[1]);
        sums[1] = 0;
    } else if (filters == 2) {
        QUADS(TWO);
    } else if (filters == 3) {
        QUADS(THREE);
    } else {
        QUADS(FOUR);
    }
    return words;
}

#else

/* Adds the products of the quad of inputs at x. */
static void add_quad(const int8_t *x, const uint32_t *stream, int32_t filters, int32_t *sums)
{
    const uint32_t word = tw_word(x);
    for (int32_t i = 0; i < filters; ++i, stream += 2) {
        sums[i] = tw_smlad(tw_sxtb16_odd(word), stream[1], tw_smlad(tw_sxtb16(word), stream[0], sums[i]));
    }
}

static const uint32_t *add_products(const int8_t *x, const int8_t *end, const uint32_t *stream, int32_t filters, int32_t *sums)
{
    for (; x != end; x += 4, stream += 2 * filters) {
        add_quad(x, stream, filters, sums);
    }
    return stream;
}

#endif

/* The last `rest` inputs of a row of `depth` inputs, one to three, as a word with zeros for missing ones; end: the end of the
 * row. */
static inline uint32_t last_word(const int8_t *end, int32_t depth, int32_t rest)
{
    if (depth > rest) {
        return tw_word(end - 4) >> (32 - 8 * rest);
    }
    uint32_t word = 0;
    for (int32_t i = 1; i <= rest; ++i) {
        word = word << 8 | (uint8_t)end[-i];
    }
    return word;
}

/* Rescales all sums and writes the outputs. */
static inline void put(const tw_fully_connected *p, const int32_t *sums, int8_t *to)
{
    for (int32_t i = 0; i < p->out.c; ++i) {
        to[i] = (int8_t)tw_clamp(rescale(sums[i], factor_of(p, p->per_channel ? i : 0), p->out_zero), p->out_min, p->out_max);
    }
}

/* Computes the outputs of a row. */
static inline void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to)
{
    const tw_fully_connected *p = &params->dense;
    const int32_t units = p->out.c, rest = p->in.c % 4;
    const int8_t *const end = from + p->in.c;
    const uint32_t *stream = params->stream;
    int32_t sums[MOST] = {0, 0, 0, 0};
    for (int32_t i = 0; i < units; ++i) {
        sums[i] = tw_signed(*stream++);
    }
    stream = add_products(from, end - rest, stream, units, sums);
    if (rest > 0) {
        const uint32_t last = last_word(end, p->in.c, rest);
        add_products((const int8_t *)&last, (const int8_t *)(&last + 1), stream, units, sums);
    }
    put(p, sums, to);
}

TW_FORMS(tw_fully_connected_s8_few_dsp, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out),
         p->dense.out, all_rows(p, in, out, range, all_units))

void tw_fully_connected_s8_few_dsp_rows(const tw_fully_connected_dsp *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t units = p->dense.out.c, row = in.row_stride;
    const uint32_t *stream = p->stream + units + range.row_begin * row / 2 * units;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int8_t *const from = (const int8_t *)tw_pixel(&in, y, 0, 0);
        int32_t totals[MOST] = {0, 0, 0, 0};
        for (int32_t i = 0; i < units; ++i) {
            totals[i] = y == 0 ? tw_signed(p->stream[i]) : sums[i];
        }
        stream = add_products(from, from + row, stream, units, totals);
        for (int32_t i = 0; i < units; ++i) {
            sums[i] = totals[i];
        }
    }
    if (range.row_end * row == p->dense.in.c) {
        put(&p->dense, sums, (int8_t *)out);
    }
}
