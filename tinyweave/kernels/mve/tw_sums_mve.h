/* tw_sums_mve.h - sums of sixteen neighbouring channels over a window of pixels, with the Arm MVE extension.
 *
 * A low-overhead loop over the pixels of a row widens a vector of channels to 16 bits, even and odd ones, and adds both to sums
 * of 16 bits, which hold 256 values; then these are widened once more and added to sums of 32 bits. All are in registers: two
 * of 16 bits, four of 32 bits. Cost: 8 instructions per pixel of the window and sixteen channels. */
#ifndef TW_SUMS_MVE_H
#define TW_SUMS_MVE_H

#include "tw_mve.h"
#include "tw_pool.h"

#if TW_HAS_MVE

#define TW_SUMS_MOST 256 /* int8 values whose sum 16 bits hold */

/* Sums of sixteen neighbouring channels: channel 4 * i + j is lane i of vector j, as VLD4 and VST4 order them. */
typedef int32x4x4_t tw_sixteen;

/* Writes the outputs of sums at `to`; some: the channels that exist; p: the parameters of the kernel. */
typedef void tw_sums_put(const void *p, tw_sixteen sums, mve_pred16_t some, int8_t *to);

/* The sums of a window of at most TW_SUMS_MOST pixels. */
static inline tw_sixteen tw_sums_of(const tw_view *in, const tw_pool_window *window, mve_pred16_t some)
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
    const tw_sixteen sums = {{vmovlbq_s16(even), vmovlbq_s16(odd), vmovltq_s16(even), vmovltq_s16(odd)}};
    return sums;
}

/* The sums of a window of any size, which is summed in parts of at most TW_SUMS_MOST pixels. */
static inline tw_sixteen tw_sums_of_parts(const tw_view *in, const tw_pool_window *window, mve_pred16_t some)
{
    const int32_t cols = tw_min(window->cols, TW_SUMS_MOST), rows = TW_SUMS_MOST / cols, ring = in->ring_height * in->row_stride;
    const int32x4_t zero = vdupq_n_s32(0);
    tw_sixteen sums = {{zero, zero, zero, zero}};
    int32_t offset = window->offset;
    for (int32_t row = 0; row < window->rows; row += rows) {
        for (int32_t col = 0; col < window->cols; col += cols) {
            const tw_pool_window part = {offset + col * window->pixel, tw_min(rows, window->rows - row),
                                         tw_min(cols, window->cols - col), window->pixel};
            const tw_sixteen found = tw_sums_of(in, &part, some);
            sums.val[0] = vaddq_s32(sums.val[0], found.val[0]); /* a loop would keep the sums in memory */
            sums.val[1] = vaddq_s32(sums.val[1], found.val[1]);
            sums.val[2] = vaddq_s32(sums.val[2], found.val[2]);
            sums.val[3] = vaddq_s32(sums.val[3], found.val[3]);
        }
        offset = tw_down(offset, rows * in->row_stride, ring);
    }
    return sums;
}

/* Puts the outputs of all channels of a window. */
TW_INLINE void tw_sums_put_pixel(const tw_view *in, tw_pool_window window, const void *p, int8_t *to, tw_sums_put *put)
{
    const int32_t count = window.rows * window.cols;
    for (int32_t left = window.pixel; left > 0; left -= TW_MVE_LANES) {
        const mve_pred16_t some = vctp8q((uint32_t)left);
        put(p, count <= TW_SUMS_MOST ? tw_sums_of(in, &window, some) : tw_sums_of_parts(in, &window, some), some, to);
        window.offset += TW_MVE_LANES;
        to += TW_MVE_LANES;
    }
}

/* Adds the pixels of a range to sums[channels], which row 0 sets up; puts the outputs if `last`. */
TW_INLINE void tw_sums_put_rows(const tw_view *in, int32_t channels, tw_range range, int last, int32_t *sums, const void *p,
                                int8_t *to, tw_sums_put *put)
{
    tw_pool_window window = {tw_offset(in, range.row_begin, range.col_begin, channels), range.row_end - range.row_begin,
                             range.col_end - range.col_begin, channels};
    for (int32_t left = channels; left > 0; left -= TW_MVE_LANES) {
        const mve_pred16_t some = vctp8q((uint32_t)left);
        int32_t total[TW_MVE_LANES];
        vst4q_s32(total, tw_sums_of_parts(in, &window, some));
        for (int i = 0; i < TW_MVE_LANES; i += 4) {
            const mve_pred16_t few = vctp32q((uint32_t)tw_max(left - i, 0)), before = range.row_begin ? few : 0;
            const int32x4_t four = vaddq_s32(vldrwq_s32(total + i), vldrwq_z_s32(sums + i, before));
            vstrwq_s32(total + i, four);
            vstrwq_p_s32(sums + i, four, few);
        }
        if (last) {
            put(p, vld4q_s32(total), some, to);
        }
        window.offset += TW_MVE_LANES;
        sums += TW_MVE_LANES;
        to += TW_MVE_LANES;
    }
}

#endif

#endif
