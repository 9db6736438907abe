/* tw_concatenation_s8.c - one input of a concatenation, put into its place in the output, portable C. */
#include "tw_movement.h"

#include "tw_copy.h"
#include "tw_word.h"

#ifdef __ARM_FEATURE_UNALIGNED
#define BY_WORDS 1 /* a word at any address takes one instruction */
#else
#define BY_WORDS 0
#endif

/* Copies `count` runs of `run` bytes, `step` apart in the output. They may overlap their places in any way. */
static void copy_runs(int8_t *to, const int8_t *from, int32_t run, int32_t step, int32_t count)
{
#if TW_HAS_MVE
    if (run == 1) {
        tw_copy_bytes(to, step, from, 1, count);
        return;
    }
    /* runs are read one after the other, so only the last one may overlap a place above its own */
    if (count > 1) {
        tw_copies(to, step, from, run, run, count - 1);
    }
    tw_move_bytes(to + (count - 1) * step, from + (count - 1) * run, run);
#else
    for (; run == 1 && count > 0; --count, to += step) {
        *to = *from++;
    }
    for (; count > 0; --count, to += step - run) {
        const int8_t *const end = from + run, *const blocks = from + (run & ~15), *const words = from + (run & ~3);
        if (!BY_WORDS || (uintptr_t)to - (uintptr_t)from < (uintptr_t)run) { /* unsigned: a `to` below `from` is far above it */
            memmove(to, from, (size_t)run);
            from += run;
            to += run;
            continue;
        }
        for (; from != blocks; from += 16, to += 16) { /* loads before stores, since loads in a row take one cycle each */
            const uint32_t first = tw_word(from), second = tw_word(from + 4), third = tw_word(from + 8), fourth = tw_word(from + 12);
            tw_put_word(to, first);
            tw_put_word(to + 4, second);
            tw_put_word(to + 8, third);
            tw_put_word(to + 12, fourth);
        }
        for (; from != words; from += 4, to += 4) {
            tw_put_word(to, tw_word(from));
        }
        while (from != end) {
            *to++ = *from++;
        }
    }
#endif
}

void tw_concatenation_s8_part(const tw_concatenation *p, tw_view in, tw_view out, tw_range range)
{
    const int32_t begin = tw_max(p->before.w, range.col_begin);
    const int32_t end = tw_min(p->before.w + p->in.w, range.col_end);
    /* pixels of which the input holds all channels lie together */
    const int32_t together = p->in.c == p->out.c ? tw_max(end - begin, 1) : 1;

    for (int32_t row = range.row_begin; row < range.row_end; ++row) {
        const int32_t n = row / p->out.h - p->before.n;
        const int32_t y = row % p->out.h - p->before.h;
        if (n < 0 || n >= p->in.n || y < 0 || y >= p->in.h || begin >= end) {
            continue;
        }
        const int8_t *from = (const int8_t *)tw_pixel(&in, n * p->in.h + y, begin - p->before.w, p->in.c);
        int8_t *to = (int8_t *)tw_pixel(&out, row, begin, p->out.c) + p->before.c;
        copy_runs(to, from, together * p->in.c, p->out.c, (end - begin) / together);
    }
}

void tw_concatenation_s8(const tw_concatenation *p, const void *in, void *out)
{
    int8_t *const to = (int8_t *)out + p->before.c;
    if (p->in.w == 1) {
        tw_move_bytes(to, in, p->in.c);
    } else {
        copy_runs(to, (const int8_t *)in, p->in.c, p->out.c, p->in.w);
    }
}
