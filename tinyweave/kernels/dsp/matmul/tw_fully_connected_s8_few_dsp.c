/* tw_fully_connected_s8_few_dsp.c - int8 dense layer with at most four outputs, with the Arm DSP extension.
 * tw_fully_connected_dsp.h has the layout of the weights and the cost. */
#include "tw_fully_connected_dsp.h"

#include "tw_fully_connected_dsp_rows.h"

#define MOST 4 /* filters */

/* Returns `depth` inputs, one to three, as the last bytes of a word; the first bytes, whose weights are 0, are 0. */
static inline uint32_t few_word(const int8_t *x, int32_t depth)
{
    uint32_t word = 0;
    for (int32_t i = 0; i < depth; ++i) {
        word = word >> 8 | (uint32_t)(uint8_t)x[i] << 24;
    }
    return word;
}

#if TW_HAS_DSP

/* Returns the bytes, at most 0, from the end of the whole quads of `depth` inputs to the last quad; 0 if all quads are whole. */
static inline int32_t few_back(int32_t depth) { return -(-depth & 3); }

/* The quad of inputs at r0, as lanes (k, k + 2) in r9 and (k + 1, k + 3) in r8. */
#define INPUTS              \
    "ldr r8, [r0], #4\n"    \
    "sxtb16 r9, r8\n"       \
    "sxtb16 r8, r8, ror #8\n"
/* The weights of the next filter; its products, each added to a sum. */
#define WEIGHTS "ldrd r10, r11, [r1], #8\n"
#define PRODUCTS(sum, other)                     \
    "smlad " sum ", r9, r10, " sum "\n"          \
    "smlad " other ", r8, r11, " other "\n"
#define ONE PRODUCTS("r4", "r5") /* two sums, since a Cortex-M7 waits for a sum that the next instruction adds to */
#define TWO PRODUCTS("r4", "r4") WEIGHTS PRODUCTS("r5", "r5")
#define THREE TWO WEIGHTS PRODUCTS("r6", "r6")
#define FOUR THREE WEIGHTS PRODUCTS("r7", "r7")
#define QUAD(filters) INPUTS WEIGHTS filters

/* All quads of a row.
 * Registers at entry: r0: inputs; r1: stream; r2: end of the whole quads, at least one; r3: sums; r12: few_back. In the loop
 * r4 .. r7: sums; r8, r9: inputs; r10, r11: weights.
 * Stack, 32 bytes: r4 .. r11, saved here since compilers do not give that many registers without optimisation.
 * Loop: two quads per round; the first round of an odd number of quads enters at label 2. Equals add_quad() below for each quad. */
#define QUADS(filters)                                 \
    __asm__ volatile("push {r4-r11}\n"                 \
                     "ldm r3, {r4-r7}\n"               \
                     "sub r8, r2, r0\n"                \
                     "tst r8, #4\n"                    \
                     "bne 2f\n"                        \
                     "1:\n" QUAD(filters)              \
                     "2:\n" QUAD(filters)              \
                     "cmp r0, r2\n"                    \
                     "bne 1b\n"                        \
                     "cmp r12, #0\n"                   \
                     "beq 3f\n"                        \
                     "add r0, r0, r12\n" QUAD(filters) \
                     "3:\n"                            \
                     "stm r3, {r4-r7}\n"               \
                     "pop {r4-r11}\n"                  \
                     : "+r"(from), "+r"(words)         \
                     : "r"(stop), "r"(to), "r"(back)   \
                     : "cc", "memory")

/* Adds the products of a row of inputs with one to four filters; returns the end of their stream. */
TW_NOT_INLINE const uint32_t *add_products(const int8_t *x, int32_t depth, const uint32_t *stream, int32_t filters,
                                           int32_t *sums)
{
    uint32_t word;
    if (filters == 1) {
        sums[1] = 0; /* the second sum of ONE */
    }
    if (depth < 4) {
        word = few_word(x, depth);
        x = (const int8_t *)&word;
        depth = 4;
    }
    const int8_t *const end = x + (depth & ~3);
    const int32_t offset = few_back(depth);
    register const int8_t *from __asm__("r0") = x;
    register const uint32_t *words __asm__("r1") = stream;
    register const int8_t *stop __asm__("r2") = end;
    register int32_t *to __asm__("r3") = sums;
    register int32_t back __asm__("r12") = offset;
    if (filters == 1) {
        QUADS(ONE);
        sums[0] = tw_signed((uint32_t)sums[0] + (uint32_t)sums[1]);
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

/* Adds the products of a quad of inputs. */
static const uint32_t *add_quad(uint32_t word, const uint32_t *stream, int32_t filters, int32_t *sums)
{
    for (int32_t i = 0; i < filters; ++i, stream += 2) {
        sums[i] = tw_smlad(tw_sxtb16_odd(word), stream[1], tw_smlad(tw_sxtb16(word), stream[0], sums[i]));
    }
    return stream;
}

static const uint32_t *add_products(const int8_t *x, int32_t depth, const uint32_t *stream, int32_t filters, int32_t *sums)
{
    if (depth < 4) {
        return add_quad(few_word(x, depth), stream, filters, sums);
    }
    for (int32_t i = 0; i < depth; i += 4) {
        stream = add_quad(tw_word(x + tw_min(i, depth - 4)), stream, filters, sums);
    }
    return stream;
}

#endif

/* Rescales all sums and writes the outputs. */
static inline void put(const tw_dense *p, const int32_t *sums, int8_t *to)
{
    for (int32_t i = 0; i < p->out.c; ++i) {
        to[i] = (int8_t)tw_clamp(rescale(sums[i], factor_of(p, p->per_channel ? i : 0), p->out_zero), p->out_min, p->out_max);
    }
}

/* Computes the outputs of a row. */
TW_NOT_INLINE void all_units(const tw_fully_connected_dsp *params, const int8_t *from, int8_t *to)
{
    const tw_dense *p = &params->dense;
    int32_t sums[MOST];
    for (int32_t i = 0; i < p->out.c; ++i) {
        sums[i] = tw_signed(params->stream[i]);
    }
    add_products(from, p->in.c, params->stream + p->out.c, p->out.c, sums);
    put(p, sums, to);
}

void tw_fully_connected_s8_few_dsp_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range)
{
    all_rows(p, in, out, range, all_units);
}

/* Rows of a whole map follow each other. Views of it would take longer than the products of most of these layers. */
void tw_fully_connected_s8_few_dsp(const tw_fully_connected_dsp *p, const void *in, void *out)
{
    const int8_t *from = (const int8_t *)in;
    int8_t *to = (int8_t *)out;
    for (int32_t i = p->dense.out.h * p->dense.out.w; i > 0; --i) {
        all_units(p, from, to);
        from += p->dense.in.c;
        to += p->dense.out.c;
    }
}

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
        stream = add_products(from, row, stream, units, totals);
        for (int32_t i = 0; i < units; ++i) {
            sums[i] = totals[i];
        }
    }
    if (range.row_end * row == p->dense.in.c) {
        put(&p->dense, sums, (int8_t *)out);
    }
}
