/* tw_max_pool_words.h - the maximum over a window: two words of channels at a time, of bytes or of lanes of 16 bits.
 *
 * Two words share the loop; their loads in a row take three cycles on a Cortex-M. */
#ifndef TW_MAX_POOL_WORDS_H
#define TW_MAX_POOL_WORDS_H

#include "tw_pool.h"
#include "tw_word.h"

/* The larger of each value of x and y. */
typedef uint32_t tw_larger(uint32_t x, uint32_t y);

typedef struct { uint32_t first, second; } tw_two_words;

/* The maxima over a window of the word of channels from its offset on, and of the word `apart` bytes after it; lowest: a word of the
 * least values. */
TW_INLINE tw_two_words tw_highest(const tw_view *in, const tw_pool_window *window, int32_t offset, int32_t apart, uint32_t lowest,
                                  tw_larger *larger)
{
    const int32_t ring = in->ring_height * in->row_stride;
    tw_two_words found = {lowest, lowest};
    for (int32_t row = window->rows; row > 0; --row) {
        const int8_t *from = (const int8_t *)in->data + offset;
        for (int32_t col = window->cols; col > 0; --col) {
            const uint32_t first = tw_word(from), second = tw_word(from + apart);
            found.first = larger(found.first, first);
            found.second = larger(found.second, second);
            from += window->pixel;
        }
        offset = tw_down(offset, in->row_stride, ring);
    }
    return found;
}

/* The maxima of all channels of a pixel, which has at least four bytes. The last two words may overlap, so they are read before
 * either is written. */
TW_INLINE void tw_highest_pixel(const tw_view *in, const tw_pool_window *window, int8_t *to, uint32_t lowest, tw_larger *larger)
{
    const int32_t last = window->pixel - 4;
    int32_t at = 0;
    if (last % 8 >= 5) { /* pairs of words need four or more bytes besides whole eights */
        tw_put_word(to, tw_highest(in, window, window->offset, 0, lowest, larger).first);
        at = 4;
    }
    for (; at <= last; at += 8) {
        const int32_t second = tw_min(at + 4, last);
        const tw_two_words found = tw_highest(in, window, window->offset + at, second - at, lowest, larger);
        tw_put_word(to + at, found.first);
        tw_put_word(to + second, found.second);
    }
}

#endif
