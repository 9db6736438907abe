/* tw_multiply_s16_dsp.c - int16 inputs times int8 weights with the Arm DSP extension: a window times four filters, or one.
 *
 * Layers: conv_2d and fully_connected on int16 with the weights of the portable kernels.
 * Cost: 26 instructions per 16 MACs of four filters, 10 per 4 of one.
 */
#include "tw_multiply_s16_dsp.h"

#include "tw_dsp.h"

/* sum + the products of four inputs with four weights. */
static inline int32_t quad(const int16_t *x, const int8_t *w, int32_t sum)
{
    const uint32_t low = tw_word(x), high = tw_word(x + 2), word = tw_word(w);
    return tw_smlad(tw_pkhtb(low, high), tw_sxtb16_odd(word), tw_smlad(tw_pkhbt(low, high), tw_sxtb16(word), sum));
}

#if TW_HAS_DSP && defined(__OPTIMIZE__) /* a build without optimisation keeps too few registers free */

/* The four weights in `word` times the inputs (k, k + 2) in [even] and (k + 1, k + 3) in [odd]; SXTB16 widens in this order. */
#define PRODUCTS(word, other, sum)                            \
    "sxtb16 " other ", " word "\n"                            \
    "sxtb16 " word ", " word ", ror #8\n"                     \
    "smlad %[" sum "], %[even], " other ", %[" sum "]\n"      \
    "smlad %[" sum "], %[odd], " word ", %[" sum "]\n"

/* Four inputs times four filters. Those of the first filter come last, since they move the pointer on. */
#define QUAD                                              \
    "ldr %[word], [%[x]], #4\n"                           \
    "ldr %[odd], [%[x]], #4\n"                            \
    "ldr %[other], [%[w], %[filter]]\n"                   \
    "pkhbt %[even], %[word], %[odd], lsl #16\n"           \
    "pkhtb %[odd], %[odd], %[word], asr #16\n"            \
    PRODUCTS("%[other]", "%[word]", "s_1")                \
    "ldr %[word], [%[w], %[filter], lsl #1]\n"            \
    PRODUCTS("%[word]", "%[other]", "s_2")                \
    "add %[other], %[w], %[filter]\n"                     \
    "ldr %[word], [%[other], %[filter], lsl #1]\n"        \
    PRODUCTS("%[word]", "%[other]", "s_3")                \
    "ldr %[word], [%[w]], #4\n"                           \
    PRODUCTS("%[word]", "%[other]", "s_0")

/* Registers: [x], [w]: inputs, weights of the first filter; [filter]: from these to those of the next one; [s_0] .. [s_3]: sums;
 * [even], [odd]: inputs k, k + 2 and k + 1, k + 3; [word], [other]: weights; [end]: of the inputs.
 * No stack. One register fewer than a build with a frame pointer has.
 * Loop: two quads per round; the first round of an odd number of quads enters at label 2. */
TW_INLINE void quads_of_four(const int16_t *x, const int8_t *w, int32_t filter, int32_t quads, tw_sums_s16 *sums)
{
    const int16_t *const end = x + 4 * quads;
    int32_t sum_0 = sums->of[0], sum_1 = sums->of[1], sum_2 = sums->of[2], sum_3 = sums->of[3];
    uint32_t even, odd, word, other;
    if (quads > 0) {
        __asm__(
            "sub %[word], %[end], %[x]\n"
            "tst %[word], #8\n"
            "bne 2f\n"
            "1:\n" QUAD
            "2:\n" QUAD
            "cmp %[x], %[end]\n"
            "bne 1b\n"
            : [x] "+r"(x), [w] "+r"(w), [s_0] "+r"(sum_0), [s_1] "+r"(sum_1), [s_2] "+r"(sum_2), [s_3] "+r"(sum_3),
              [even] "=&r"(even), [odd] "=&r"(odd), [word] "=&r"(word), [other] "=&r"(other)
            : [filter] "r"(filter), [end] "r"(end) : "cc", "memory");
    }
    sums->of[0] = sum_0;
    sums->of[1] = sum_1;
    sums->of[2] = sum_2;
    sums->of[3] = sum_3;
}

#else

TW_INLINE void quads_of_four(const int16_t *x, const int8_t *w, int32_t filter, int32_t quads, tw_sums_s16 *sums)
{
    for (; quads > 0; --quads, x += 4, w += 4) {
        for (int32_t i = 0; i < 4; ++i) {
            sums->of[i] = quad(x, w + i * filter, sums->of[i]);
        }
    }
}

#endif

TW_INLINE void quads_of_one(const int16_t *x, const int8_t *w, int32_t filter, int32_t quads, tw_sums_s16 *sums)
{
    (void)filter;
    for (; quads > 0; --quads, x += 4, w += 4) {
        sums->of[0] = quad(x, w, sums->of[0]);
    }
}

typedef void multiply_quads(const int16_t *x, const int8_t *w, int32_t filter, int32_t quads, tw_sums_s16 *sums);

/* Adds the products of a run with 1 or 4 filters. */
TW_INLINE void add_run(const int16_t *x, const int8_t *w, int32_t filter, int32_t count, int32_t filters,
                       multiply_quads *multiply, tw_sums_s16 *sums)
{
    multiply(x, w, filter, count >> 2, sums);
    for (int32_t k = count & ~3; k < count; ++k) {
        sums->of[0] += x[k] * w[k];
        if (filters > 1) {
            sums->of[1] += x[k] * w[filter + k];
            sums->of[2] += x[k] * w[2 * filter + k];
            sums->of[3] += x[k] * w[3 * filter + k];
        }
    }
}

TW_INLINE tw_sums_s16 sum(const tw_runs_s16 *runs, int32_t first, int32_t filters, multiply_quads *multiply)
{
    const int32_t filter = runs->filter, count = runs->count;
    const int16_t *row = runs->x;
    const int8_t *w_row = runs->weights + first * filter;
    tw_sums_s16 sums = {{0, 0, 0, 0}};
    if (runs->rows == 1 && runs->runs == 1) { /* a dense layer, or a 1x1 window */
        add_run(row, w_row, filter, count, filters, multiply, &sums);
        return sums;
    }
    for (int32_t rows = runs->rows; rows > 0; --rows) {
        const int16_t *x = row;
        const int8_t *w = w_row;
        for (int32_t left = runs->runs; left > 0; --left) {
            add_run(x, w, filter, count, filters, multiply, &sums);
            x += runs->x_run;
            w += count;
        }
        row += runs->x_row;
        w_row += runs->w_row;
    }
    return sums;
}

tw_sums_s16 tw_sum_four_s16_dsp(const tw_runs_s16 *runs, int32_t first) { return sum(runs, first, 4, quads_of_four); }
tw_sums_s16 tw_sum_one_s16_dsp(const tw_runs_s16 *runs, int32_t first) { return sum(runs, first, 1, quads_of_one); }
