/* tw_mve_taps.c - one window of sixteen channels, with the Arm MVE extension. */
#include "tw_mve_taps.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* Sums of products of 16 bits, of even and of odd channels, are added to those of 32 bits. */
#define WIDEN(even, odd)                                   \
    sum_0 = vaddq_s32(sum_0, vmovlbq_s16(even));           \
    sum_1 = vaddq_s32(sum_1, vmovltq_s16(even));           \
    sum_2 = vaddq_s32(sum_2, vmovlbq_s16(odd));            \
    sum_3 = vaddq_s32(sum_3, vmovltq_s16(odd))

static inline int32x4_t rescale(int32x4_t sum, const int32_t *multiplier, int32_t sign)
{
    int32x4_t high = vqrdmulhq_s32(sum, vldrwq_s32(multiplier));
    if (sign) {
        high = vaddq_s32(high, vshrq_n_s32(high, 31));
    }
    return vrshlq_s32(high, vldrwq_s32(multiplier + TW_MVE_LANES));
}

static inline void finish(const tw_mve_window *window, int32x4_t sum_0, int32x4_t sum_1, int32x4_t sum_2, int32x4_t sum_3,
                          const int32_t *multiplier, int32_t sign, int32_t count, int8_t *to)
{
    int16x8_t even = vuninitializedq_s16(), odd = vuninitializedq_s16();
    even = vqmovnbq_s32(even, rescale(sum_0, multiplier, sign));
    even = vqmovntq_s32(even, rescale(sum_1, multiplier + 4, sign));
    odd = vqmovnbq_s32(odd, rescale(sum_2, multiplier + 8, sign));
    odd = vqmovntq_s32(odd, rescale(sum_3, multiplier + 12, sign));
    int8x16_t all = vuninitializedq_s8();
    all = vqmovnbq_s16(all, vqaddq_n_s16(even, (int16_t)window->zero));
    all = vqmovntq_s16(all, vqaddq_n_s16(odd, (int16_t)window->zero));
    all = vmaxq_s8(all, vdupq_n_s8((int8_t)window->low));
    all = vminq_s8(all, vdupq_n_s8((int8_t)window->high));
    __asm__ volatile(
        "vctp.8 %2\n"
        "vpst\n"
        "vstrbt.8 %q1, [%0]\n"
        : : "r"(to), "w"(all), "r"(count) : "memory");
}

void tw_mve_taps(const tw_mve_window *window, const int8_t *data, int32_t offset, const uint32_t *stream, int32_t count,
                 int8_t *to)
{
    const int32_t step = window->step, row_step = window->row_step, ring = window->ring;
    const int8_t *weights = (const int8_t *)(stream + TW_MVE_LANES);
    int32x4_t sum_0 = vldrwq_s32((const int32_t *)stream), sum_1 = vldrwq_s32((const int32_t *)stream + 4);
    int32x4_t sum_2 = vldrwq_s32((const int32_t *)stream + 8), sum_3 = vldrwq_s32((const int32_t *)stream + 12);
    for (int32_t row = window->rows; row > 0; --row) {
        const int8_t *x = data + offset;
        for (int32_t twos = window->cols >> 1; twos > 0; --twos) {
            const int8x16_t x_0 = vldrbq_s8(x), w_0 = vldrbq_s8(weights);
            int16x8_t even = vmullbq_int_s8(x_0, w_0), odd = vmulltq_int_s8(x_0, w_0);
            const int8x16_t x_1 = vldrbq_s8(x + step), w_1 = vldrbq_s8(weights + TW_MVE_LANES);
            even = vaddq_s16(even, vmullbq_int_s8(x_1, w_1));
            odd = vaddq_s16(odd, vmulltq_int_s8(x_1, w_1));
            WIDEN(even, odd);
            x += 2 * step;
            weights += 2 * TW_MVE_LANES;
        }
        if (window->cols & 1) {
            const int8x16_t x_0 = vldrbq_s8(x), w_0 = vldrbq_s8(weights);
            const int16x8_t even = vmullbq_int_s8(x_0, w_0), odd = vmulltq_int_s8(x_0, w_0);
            WIDEN(even, odd);
            weights += TW_MVE_LANES;
        }
        offset = tw_down(offset, row_step, ring);
    }
    if (window->sign) {
        finish(window, sum_0, sum_1, sum_2, sum_3, (const int32_t *)weights, 1, count, to);
    } else {
        finish(window, sum_0, sum_1, sum_2, sum_3, (const int32_t *)weights, 0, count, to);
    }
}

#else

void tw_mve_taps(const tw_mve_window *window, const int8_t *data, int32_t offset, const uint32_t *stream, int32_t count,
                 int8_t *to)
{
    const int8_t *weights = (const int8_t *)(stream + TW_MVE_LANES);
    uint32_t sums[TW_MVE_LANES]; /* of the channels in their own order */
    for (int32_t i = 0; i < TW_MVE_LANES; ++i) {
        sums[i] = stream[(i & 1) * 8 + (i & 2) * 2 + i / 4];
    }
    for (int32_t row = 0; row < window->rows; ++row) {
        const int8_t *x = data + offset;
        for (int32_t col = 0; col < window->cols; ++col) {
            for (int32_t i = 0; i < TW_MVE_LANES; ++i) {
                sums[i] += (uint32_t)(x[i] * weights[i]);
            }
            x += window->step;
            weights += TW_MVE_LANES;
        }
        offset = tw_down(offset, window->row_step, window->ring);
    }
    stream += TW_MVE_LANES + window->rows * window->cols * (TW_MVE_LANES / 4);
    for (int32_t i = 0; i < count; ++i) {
        const int32_t at = (i & 1) * 8 + (i & 2) * 2 + i / 4;
        const int32_t scaled = tw_mve_rescale((int32_t)sums[i], (int32_t)stream[at], (int32_t)stream[TW_MVE_LANES + at],
                                              window->sign);
        to[i] = (int8_t)tw_clamp(scaled + window->zero, window->low, window->high);
    }
}

#endif
