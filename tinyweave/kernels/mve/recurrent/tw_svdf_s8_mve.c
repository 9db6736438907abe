/* tw_svdf_s8_mve.c - int8 SVDF layer with the Arm MVE extension.
 *
 * First one copy moves the whole state by one step: the newest product of a filter becomes the one before it. Then the newest
 * products of four filters at a time are computed and scattered into the state. Last come the sums over time of four units at a
 * time. The products of all filters of a unit are contiguous, as are their time weights. */
#include "tw_recurrent_mve.h"

#include "tw_mve_dots.h"

#define FOUR 4 /* filters, or units, at a time */

#if TW_HAS_MVE

/* Writes the newest products of `count` filters, whose sums are given, to the state. */
static inline void keep(const tw_svdf_mve *m, int32_t filter, tw_mve_sums sums, int32_t count, int8_t *state)
{
    const tw_svdf *const p = &m->svdf;
    const mve_pred16_t some = vctp32q((uint32_t)count);
    const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)p->steps);
    const int32_t newest = filter * p->steps + p->steps - 1, most = p->state_bytes == 1 ? 127 : 32767;
    const int32x4_t sum = vaddq_s32(tw_mve_vector(sums), vldrwq_z_s32(m->product_bias + filter, some));
    const int32x4_t scaled = tw_mve_requantize(sum, p->state_multiplier, p->state_shift);
    const int32x4_t product = vminq_s32(vmaxq_s32(scaled, vdupq_n_s32(~most)), vdupq_n_s32(most));
    if (p->state_bytes == 1) {
        vstrbq_scatter_offset_p_s32(state + newest, places, vaddq_n_s32(product, p->state_zero), some);
    } else {
        vstrhq_scatter_shifted_offset_p_s32((int16_t *)(void *)state + newest, places, product, some);
    }
}

/* Writes the outputs of `count` units, whose sums over time are given. */
static inline void finish(const tw_svdf *p, int32_t unit, tw_mve_sums sums, int32_t count, int8_t *out)
{
    const mve_pred16_t some = vctp32q((uint32_t)count);
    const int32x4_t sum = vaddq_s32(tw_mve_vector(sums), vldrwq_z_s32(p->bias + unit, some));
    const int32x4_t scaled = vaddq_n_s32(tw_mve_requantize(sum, p->multiplier, p->shift), p->out_zero);
    vstrbq_p_s32(out + unit, vminq_s32(vmaxq_s32(scaled, vdupq_n_s32(-128)), vdupq_n_s32(127)), some);
}

/* Adds to sum_0 and sum_1 the sums over time of two units, of `count` products each. Registers: lr: products left; q0, q2:
 * products; q1, q3: time weights. WLSTP and LETP predicate the tail. */
#define TWO_UNITS(load, bits, state_0, weights_0, state_1, weights_1, count, sum_0, sum_1)                                    \
    __asm__(                                                                                                                  \
        "wlstp." bits " lr, %[count_], 2f\n"                                                                                  \
        "1:\n"                                                                                                                \
        load " q0, [%[x_0]], #16\n"                                                                                           \
        load " q1, [%[w_0]], #16\n"                                                                                           \
        "vmladava.s" bits " %[s_0], q0, q1\n"                                                                                 \
        load " q2, [%[x_1]], #16\n"                                                                                           \
        load " q3, [%[w_1]], #16\n"                                                                                           \
        "vmladava.s" bits " %[s_1], q2, q3\n"                                                                                 \
        "letp lr, 1b\n"                                                                                                       \
        "2:\n"                                                                                                                \
        : [x_0] "+r"(state_0), [w_0] "+r"(weights_0), [x_1] "+r"(state_1), [w_1] "+r"(weights_1), [s_0] "+Te"(sum_0),         \
          [s_1] "+Te"(sum_1)                                                                                                  \
        : [count_] "r"(count) : "lr", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "memory")

/* The sums over time of two units, of `count` products each; the second one's products begin `step` bytes after the first's. */
static inline void two_units(const tw_svdf *p, const int8_t *state, const int8_t *weights, int32_t step, int32_t count,
                             int32_t *sums)
{
    const int8_t *x_0 = state, *w_0 = weights, *x_1 = state + step, *w_1 = weights + step;
    int32_t sum_0 = 0, sum_1 = 0;
    if (p->state_bytes == 1) {
        TWO_UNITS("vldrb.8", "8", x_0, w_0, x_1, w_1, count, sum_0, sum_1);
    } else {
        TWO_UNITS("vldrh.16", "16", x_0, w_0, x_1, w_1, count, sum_0, sum_1);
    }
    sums[0] = sum_0;
    sums[1] = sum_1;
}

#else

static void keep(const tw_svdf_mve *m, int32_t filter, tw_mve_sums sums, int32_t count, int8_t *state)
{
    const tw_svdf *const p = &m->svdf;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t newest = (filter + i + 1) * p->steps - 1;
        const int32_t sum = tw_add_bias(sums.of[i], m->product_bias, filter + i);
        const int32_t product = tw_requantize(sum, p->state_multiplier, p->state_shift);
        if (p->state_bytes == 1) {
            state[newest] = (int8_t)(tw_clamp(product, -128, 127) + p->state_zero);
        } else {
            ((int16_t *)(void *)state)[newest] = (int16_t)tw_clamp(product, -32768, 32767);
        }
    }
}

static void finish(const tw_svdf *p, int32_t unit, tw_mve_sums sums, int32_t count, int8_t *out)
{
    for (int32_t i = 0; i < count; ++i) {
        const int32_t scaled = tw_requantize(tw_add_bias(sums.of[i], p->bias, unit + i), p->multiplier, p->shift);
        out[unit + i] = (int8_t)tw_clamp(scaled + p->out_zero, -128, 127);
    }
}

static void two_units(const tw_svdf *p, const int8_t *state, const int8_t *weights, int32_t step, int32_t count, int32_t *sums)
{
    for (int32_t unit = 0; unit < 2; ++unit, state += step, weights += step) {
        uint32_t sum = 0; /* modulo 2^32 */
        for (int32_t i = 0; i < count; ++i) {
            const int32_t product = p->state_bytes == 1 ? state[i] * weights[i]
                                    : ((const int16_t *)(const void *)state)[i] * ((const int16_t *)(const void *)weights)[i];
            sum += (uint32_t)product;
        }
        sums[unit] = (int32_t)sum;
    }
}

#endif

/* Computes the newest products of all filters. */
TW_NOT_INLINE void multiply(const tw_svdf_mve *m, const int8_t *in, int8_t *state)
{
    const tw_svdf *const p = &m->svdf;
    const int32_t filters = p->units * p->rank, whole = filters & -FOUR;
    const int8_t *weights = p->weights;
    for (int32_t filter = 0; filter < whole; filter += FOUR) {
        keep(m, filter, tw_mve_dots(in, weights, FOUR, p->depth), FOUR, state);
        weights += FOUR * p->depth;
    }
    if (whole < filters) {
        keep(m, whole, tw_mve_dots(in, weights, filters - whole, p->depth), filters - whole, state);
    }
}

/* Computes the outputs of `some` units, at most four; of an odd number the last one is computed twice. */
TW_INLINE void weigh_some(const tw_svdf *p, int32_t unit, int32_t some, const int8_t *state, int8_t *out)
{
    const int32_t count = p->rank * p->steps, bytes = count * p->state_bytes;
    const int8_t *weights = (const int8_t *)p->time_weights + unit * bytes;
    tw_mve_sums sums = {{0, 0, 0, 0}};
    state += unit * bytes;
    two_units(p, state, weights, some > 1 ? bytes : 0, count, sums.of);
    if (some > 2) {
        two_units(p, state + 2 * bytes, weights + 2 * bytes, some > 3 ? bytes : 0, count, sums.of + 2);
    }
    finish(p, unit, sums, some, out);
}

/* Computes the outputs of all units. */
TW_NOT_INLINE void weigh(const tw_svdf *p, const int8_t *state, int8_t *out)
{
    const int32_t whole = p->units & -FOUR;
    for (int32_t unit = 0; unit < whole; unit += FOUR) {
        weigh_some(p, unit, FOUR, state, out);
    }
    if (whole < p->units) {
        weigh_some(p, whole, p->units - whole, state, out);
    }
}

void tw_svdf_s8_mve(const tw_svdf_mve *m, const void *in, void *state, void *out)
{
    const tw_svdf *const p = &m->svdf;
    const int32_t bytes = p->units * p->rank * p->steps * p->state_bytes;
    for (int32_t b = 0; b < p->batch; ++b) {
        int8_t *const products = (int8_t *)state + b * bytes;
        tw_copy(products, products + p->state_bytes, bytes - p->state_bytes);
        multiply(m, (const int8_t *)in + b * p->depth, products);
        weigh(p, products, (int8_t *)out + b * p->units);
    }
}
