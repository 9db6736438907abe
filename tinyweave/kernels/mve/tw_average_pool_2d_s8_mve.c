/* tw_average_pool_2d_s8_mve.c - int8 average over a window with the Arm MVE extension, sixteen channels at a time.
 *
 * A low-overhead loop over the pixels of a row widens a vector of channels to 16 bits, even and odd ones, and adds both to sums
 * of 16 bits, which hold 256 values; then these are widened once more and added to sums of 32 bits. All are in registers: two
 * of 16 bits, four of 32 bits. Cost: 8 instructions per pixel of the window and sixteen channels, and about 80 per sixteen
 * outputs. */
#include "tw_pool_mve.h"

#include "tw_mve.h"

#if TW_HAS_MVE

#define MOST 256 /* int8 values whose sum 16 bits hold */

/* Sums of sixteen neighbouring channels: channel 4 * i + j is lane i of vector j, as VLD4 and VST4 order them. */
typedef int32x4x4_t sixteen;

/* The sums of a window of at most MOST pixels. some: the channels that exist. */
static inline sixteen sums_of(const tw_view *in, const tw_pool_window *window, mve_pred16_t some)
{
    const int32_t ring = in->ring_height * in->row_stride;
    int16x8_t even = vdupq_n_s16(0), odd = even;
    int32_t offset = window->offset;
    for (int32_t row = window->rows; row > 0; --row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t col = window->cols; col > 0; --col) {
            const int8x16_t values = vldrbq_z_s8(from, some);
            even = vaddq_s16(even, vmovlbq_s8(values));
            odd = vaddq_s16(odd, vmovltq_s8(values));
            from += window->pixel;
        }
        offset = tw_down(offset, in->row_stride, ring);
    }
    const sixteen sums = {{vmovlbq_s16(even), vmovlbq_s16(odd), vmovltq_s16(even), vmovltq_s16(odd)}};
    return sums;
}

/* The sums of a window of any size, which is summed in parts of at most MOST pixels. */
static inline sixteen sums_of_parts(const tw_view *in, const tw_pool_window *window, mve_pred16_t some)
{
    const int32_t cols = tw_min(window->cols, MOST), rows = MOST / cols, ring = in->ring_height * in->row_stride;
    const int32x4_t zero = vdupq_n_s32(0);
    sixteen sums = {{zero, zero, zero, zero}};
    int32_t offset = window->offset;
    for (int32_t row = 0; row < window->rows; row += rows) {
        for (int32_t col = 0; col < window->cols; col += cols) {
            const tw_pool_window part = {offset + col * window->pixel, tw_min(rows, window->rows - row),
                                         tw_min(cols, window->cols - col), window->pixel};
            const sixteen found = sums_of(in, &part, some);
            sums.val[0] = vaddq_s32(sums.val[0], found.val[0]); /* a loop would keep the sums in memory */
            sums.val[1] = vaddq_s32(sums.val[1], found.val[1]);
            sums.val[2] = vaddq_s32(sums.val[2], found.val[2]);
            sums.val[3] = vaddq_s32(sums.val[3], found.val[3]);
        }
        offset = tw_down(offset, rows * in->row_stride, ring);
    }
    return sums;
}

/* What all outputs of a window share: the sum of away_from over its pixels, half as many as its pixels, and 2^31 / pixels,
 * rounded up. As half the count of one pixel is 1 here, its reciprocal of 2^31 - 1 gives exact quotients, too. */
typedef struct { int32_t away_sum, half, reciprocal; } quotient;

static inline quotient quotient_of(const tw_pool *p, int32_t count)
{
    const quotient by = {p->away_from * count, count > 1 ? count / 2 : 1, count > 1 ? INT32_MAX / count + 1 : INT32_MAX};
    return by;
}

/* The averages of four sums, less away_from, rounded half away from it. VQDMULH multiplies by the reciprocal, and rounds down. */
static inline int32x4_t averages(int32x4_t sums, const quotient *by)
{
    const int32x4_t distances = vsubq_n_s32(sums, by->away_sum), signs = vshrq_n_s32(distances, 31);
    const int32x4_t magnitudes = vqdmulhq_n_s32(vaddq_n_s32(vabsq_s32(distances), by->half), by->reciprocal);
    return vsubq_s32(veorq_s32(magnitudes, signs), signs);
}

/* Writes the averages of sixteen sums. */
static inline void put(int8_t *to, sixteen sums, const tw_pool *p, const quotient *by, mve_pred16_t some)
{
    int16x8_t even = vreinterpretq_s16_s32(averages(sums.val[0], by)), odd = vreinterpretq_s16_s32(averages(sums.val[1], by));
    even = vmovntq_s32(even, averages(sums.val[2], by));
    odd = vmovntq_s32(odd, averages(sums.val[3], by));
    const int8x16_t out = vaddq_n_s8(vmovntq_s16(vreinterpretq_s8_s16(even), odd), (int8_t)p->away_from);
    const int8x16_t low = vdupq_n_s8((int8_t)p->out_min), high = vdupq_n_s8((int8_t)p->out_max);
    vstrbq_p_s8(to, vminq_s8(vmaxq_s8(out, low), high), some);
}

static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    const int32_t count = window->rows * window->cols;
    const quotient by = quotient_of(p, count);
    tw_pool_window channels = *window;
    for (int32_t left = window->pixel; left > 0; left -= TW_MVE_LANES) {
        const mve_pred16_t some = vctp8q((uint32_t)left);
        put(to, count <= MOST ? sums_of(in, &channels, some) : sums_of_parts(in, &channels, some), p, &by, some);
        channels.offset += TW_MVE_LANES;
        to += TW_MVE_LANES;
    }
}

void tw_average_pool_2d_s8_mve_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    const int32_t c = p->in.c;
    const quotient by = quotient_of(p, p->in.h * p->in.w);
    tw_pool_window window = {tw_offset(&in, range.row_begin, range.col_begin, c), range.row_end - range.row_begin,
                             range.col_end - range.col_begin, c};
    int8_t *to = (int8_t *)out;
    for (int32_t left = c; left > 0; left -= TW_MVE_LANES) {
        const mve_pred16_t some = vctp8q((uint32_t)left);
        int32_t total[TW_MVE_LANES];
        vst4q_s32(total, sums_of_parts(&in, &window, some));
        for (int i = 0; i < TW_MVE_LANES; i += 4) {
            const mve_pred16_t few = vctp32q((uint32_t)tw_max(left - i, 0)), before = range.row_begin ? few : 0;
            const int32x4_t four = vaddq_s32(vldrwq_s32(total + i), vldrwq_z_s32(sums + i, before));
            vstrwq_s32(total + i, four);
            vstrwq_p_s32(sums + i, four, few);
        }
        if (range.row_end == p->in.h) {
            put(to, vld4q_s32(total), p, &by, some);
        }
        window.offset += TW_MVE_LANES;
        sums += TW_MVE_LANES;
        to += TW_MVE_LANES;
    }
}

#else

static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    for (int32_t channel = 0; channel < window->pixel; ++channel) {
        const int32_t sum = tw_pool_join(in, window, channel, TW_POOL_S8, 0, tw_plus);
        to[channel] = (int8_t)tw_pool_average_of(p, sum, window->rows * window->cols);
    }
}

void tw_average_pool_2d_s8_mve_rows(const tw_pool *p, tw_view in, void *out, tw_range range, int32_t *sums)
{
    tw_pool_average_rows(p, in, out, range, sums);
}

#endif

TW_FORMS(tw_average_pool_2d_s8_mve, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_each(p, in, out, range, pixel))
