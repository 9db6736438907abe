/* tw_flip_signs.c - uint8 to int8 of the same scale, or back: each byte with its highest bit flipped, which is 128 less or more.
 * Portable C, by words. */
#include "tw_requantize.h"

#include "tw_word.h"

#define SIGNS 0x80808080u
#if defined(__arm__) && !defined(__ARM_FEATURE_UNALIGNED)
#define AT_ONCE 0 /* a word at any address takes a call of memcpy */
#else
#define AT_ONCE 16
#endif

void tw_flip_signs_part(const tw_flip *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t count = (range.col_end - range.col_begin) * p->shape.c;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const uint8_t *from = (const uint8_t *)tw_pixel(&in, y, range.col_begin, p->shape.c);
        uint8_t *to = (uint8_t *)tw_pixel(&out, y, range.col_begin, p->shape.c);
        const uint8_t *const end = to + count, *const words = to + (count & -AT_ONCE);
        while (to != words) { /* loads before stores, since loads in a row take one cycle each */
            const uint32_t first = tw_word(from), second = tw_word(from + 4), third = tw_word(from + 8), fourth = tw_word(from + 12);
            tw_put_word(to, first ^ SIGNS);
            tw_put_word(to + 4, second ^ SIGNS);
            tw_put_word(to + 8, third ^ SIGNS);
            tw_put_word(to + 12, fourth ^ SIGNS);
            from += 16;
            to += 16;
        }
        while (to != end) {
            *to++ = (uint8_t)(*from++ ^ 128);
        }
    }
}

TW_WHOLE_FORM(tw_flip_signs, tw_flip, tw_whole(in, p->shape), tw_whole(out, p->shape), p->shape)
