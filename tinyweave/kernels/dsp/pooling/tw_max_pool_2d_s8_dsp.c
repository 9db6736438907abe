/* tw_max_pool_2d_s8_dsp.c - int8 maximum over a window, with the Arm DSP extension: two words of four channels at a time.
 *
 * Cost: two instructions per four values (tw_larger_bytes). Two words share the loop; their loads in a row take three cycles. */
#include "tw_max_pool_dsp.h"

#include "tw_dsp.h"

#define LOWEST 0x80808080u /* -128 in each byte */

typedef struct { uint32_t first, second; } tw_two_words;

/* The maxima over a window of the four channels from its offset on, and of four channels `apart` bytes after them. */
static inline tw_two_words highest(const tw_view *in, const tw_pool_window *window, int32_t offset, int32_t apart)
{
    const int32_t ring = in->ring_height * in->row_stride;
    tw_two_words found = {LOWEST, LOWEST};
    for (int32_t row = window->rows; row > 0; --row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t col = window->cols; col > 0; --col) {
            const uint32_t first = tw_word(from), second = tw_word(from + apart);
            found.first = tw_larger_bytes(found.first, first);
            found.second = tw_larger_bytes(found.second, second);
            from += window->pixel;
        }
        offset = tw_down(offset, in->row_stride, ring);
    }
    return found;
}

/* A tw_pool_pixel. The last two words may overlap, so they are read before either is written. */
static void pixel(const tw_pool *p, const tw_view *in, const tw_pool_window *window, int8_t *to)
{
    const int32_t last = window->pixel - 4;
    int32_t channel = 0;
    if (last % 8 >= 5) { /* pairs of words need four or more channels besides whole eights */
        tw_put_word(to, highest(in, window, window->offset, 0).first);
        channel = 4;
    }
    for (; channel <= last; channel += 8) {
        const int32_t second = tw_min(channel + 4, last);
        const tw_two_words found = highest(in, window, window->offset + channel, second - channel);
        tw_put_word(to + channel, found.first);
        tw_put_word(to + second, found.second);
    }
    tw_clamp_all(to, window->pixel, p->out_min, p->out_max);
}

TW_FORMS(tw_max_pool_2d_s8_dsp, tw_pool, tw_whole(in, p->in), tw_whole(out, p->out), p->out,
         tw_pool_each(p, in, out, range, pixel))
