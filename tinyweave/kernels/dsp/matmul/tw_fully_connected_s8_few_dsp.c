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

/* Adds the products of a quad of inputs with a filter; w: its weights. */
static inline int32_t add_to(int32_t sum, uint32_t even, uint32_t odd, const uint32_t *w)
{
    return tw_smlad(odd, w[1], tw_smlad(even, w[0], sum));
}

/* Adds the products of a quad of inputs with `filters` filters, a constant, so that sums stay in registers. Of a single filter
 * sums[1] is a second sum, since a Cortex-M7 waits for a sum that the next instruction adds to. */
TW_INLINE const uint32_t *add_quad(uint32_t word, const uint32_t *stream, int32_t filters, int32_t *sums)
{
    const uint32_t even = tw_sxtb16(word), odd = tw_sxtb16_odd(word);
    if (filters == 1) {
        sums[0] = tw_smlad(even, stream[0], sums[0]);
        sums[1] = tw_smlad(odd, stream[1], sums[1]);
        return stream + 2;
    }
    sums[0] = add_to(sums[0], even, odd, stream);
    sums[1] = add_to(sums[1], even, odd, stream + 2);
    if (filters > 2) {
        sums[2] = add_to(sums[2], even, odd, stream + 4);
    }
    if (filters > 3) {
        sums[3] = add_to(sums[3], even, odd, stream + 6);
    }
    return stream + 2 * filters;
}

/* Adds the products of all quads of a row; returns the end of the stream. */
TW_INLINE const uint32_t *add_quads(const int8_t *x, int32_t depth, const uint32_t *stream, int32_t filters, int32_t *to)
{
    int32_t sums[MOST] = {to[0], filters > 1 ? to[1] : 0, filters > 2 ? to[2] : 0, filters > 3 ? to[3] : 0};
    const int32_t round = filters < 3 ? 8 : 4; /* bytes; for more filters, two quads per round save less */
    if (depth & 4 & round >> 1) {
        stream = add_quad(tw_word(x), stream, filters, sums);
        x += 4;
    }
    for (const int8_t *const end = x + (depth & -round); x != end; x += round) {
        stream = add_quad(tw_word(x), stream, filters, sums);
        if (round == 8) {
            stream = add_quad(tw_word(x + 4), stream, filters, sums);
        }
    }
    if (depth & 3) { /* the last quad overlaps the one before, where its weights are 0 */
        stream = add_quad(tw_word(x - (-depth & 3)), stream, filters, sums);
    }
    to[0] = filters == 1 ? tw_signed((uint32_t)sums[0] + (uint32_t)sums[1]) : sums[0];
    for (int32_t i = 1; i < filters; ++i) {
        to[i] = sums[i];
    }
    return stream;
}

/* Adds the products of a row of inputs with one to four filters; returns the end of their stream. */
TW_NOT_INLINE const uint32_t *add_products(const int8_t *x, int32_t depth, const uint32_t *stream, int32_t filters,
                                           int32_t *sums)
{
    uint32_t word;
    if (depth < 4) {
        word = few_word(x, depth);
        x = (const int8_t *)&word;
        depth = 4;
    }
    switch (filters) {
    case 1:
        return add_quads(x, depth, stream, 1, sums);
    case 2:
        return add_quads(x, depth, stream, 2, sums);
    case 3:
        return add_quads(x, depth, stream, 3, sums);
    default:
        return add_quads(x, depth, stream, 4, sums);
    }
}

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
