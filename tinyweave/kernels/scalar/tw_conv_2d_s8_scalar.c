/* tw_conv_2d_s8_scalar.c - int8 convolution in plain C, two pixels times four filters: each weight is loaded once for two
 * pixels, each input once for four filters. tw_conv_scalar.h has the layers and the cost. */
#include "tw_conv_scalar.h"

/* An empty asm statement that uses the sums or pointers: compilers then move no load across it and keep each pointer in a
 * register of its own. Without it GCC and Clang spill some of them to the stack. It emits no instruction. */
#if defined(__riscv) && defined(__GNUC__)
#define KEPT(k) "+r"(k##0), "+r"(k##1), "+r"(k##2), "+r"(k##3)
#define ORDERED(...) __asm__ volatile("" : __VA_ARGS__ : : "memory")
#else
#define ORDERED(...)
#endif

/* Adds the product of input i and filter k's weight i to one sum or two, modulo 2^32. TWO and ONE do so for four filters. */
#define PRODUCT(k, i, OTHER)                      \
    do {                                          \
        const int32_t weight = w##k[i];           \
        a##k += (uint32_t)(weight * value);       \
        OTHER                                     \
    } while (0)
#define OTHER(k) b##k += (uint32_t)(weight * other);
#define TWO(i)                                                  \
    do {                                                        \
        ORDERED(KEPT(a), KEPT(b));                              \
        const int32_t value = a[i] - zero, other = b[i] - zero; \
        PRODUCT(0, i, OTHER(0));                                \
        PRODUCT(1, i, OTHER(1));                                \
        PRODUCT(2, i, OTHER(2));                                \
        PRODUCT(3, i, OTHER(3));                                \
    } while (0)
#define ONE(i)                             \
    do {                                   \
        ORDERED(KEPT(a));                  \
        const int32_t value = a[i] - zero; \
        PRODUCT(0, i, );                   \
        PRODUCT(1, i, );                   \
        PRODUCT(2, i, );                   \
        PRODUCT(3, i, );                   \
    } while (0)

#define RESCALED(sum) (int8_t)(tw_clamp(tw_rescale_down((int32_t)(sum), twice, less), low, high) + out_zero)
#define FINISH(k)                                            \
    do {                                                     \
        const uint32_t twice = (uint32_t)multiplier[k] << 1; \
        const int32_t less = ~shift[k];                      \
        first[k] = RESCALED(a##k);                           \
        if (two) {                                           \
            second[k] = RESCALED(b##k);                      \
        }                                                    \
    } while (0)

/* The windows of one or two pixels of a row. */
typedef struct {
    const int8_t *data;             /* of the view */
    int32_t offset, next;           /* of the first window; bytes from it to the next window */
    int32_t rows, run, step, ring;  /* rows of a window, bytes per row; bytes to the next row, of the ring buffer */
    const int8_t *taps;             /* the first filter's weights for the first row */
} windows;

/* Computes the outputs of one pixel or two. Not inlined, so that the loops have all registers. */
TW_NOT_INLINE void outputs(const tw_conv *p, const windows *at, int two, int8_t *to)
{
    const int32_t depth = p->shape.in.c, units = p->shape.out.c, row_taps = p->shape.kernel.w * depth, filter = p->shape.kernel.h * row_taps;
    const int32_t zero = p->shape.in_zero, out_zero = p->shape.out_zero, low = p->shape.out_min - out_zero, high = p->shape.out_max - out_zero;
    for (int32_t next = 0; next < units; next += 4) {
        const int32_t channel = tw_min(next, units - 4);
        const int32_t *const multiplier = p->multiplier + channel, *const bias = p->bias ? p->bias + channel : 0;
        const int8_t *const shift = p->shift + channel;
        uint32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
        if (bias) {
            a0 = (uint32_t)bias[0];
            a1 = (uint32_t)bias[1];
            a2 = (uint32_t)bias[2];
            a3 = (uint32_t)bias[3];
        }
        uint32_t b0 = a0, b1 = a1, b2 = a2, b3 = a3;
        const int8_t *taps = at->taps + channel * filter;
        int32_t offset = at->offset;
        for (int32_t row = 0; row < at->rows; ++row) {
            const int8_t *a = at->data + offset, *b = a + at->next;
            const int8_t *w0 = taps, *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
            const int8_t *const end = a + at->run, *const fours = a + (at->run & ~3);
            if (two) {
                for (; a != fours; a += 4, b += 4, w0 += 4, w1 += 4, w2 += 4, w3 += 4) {
                    ORDERED(KEPT(w), "+r"(a), "+r"(b));
                    TWO(0);
                    TWO(1);
                    TWO(2);
                    TWO(3);
                }
                for (; a != end; ++a, ++b, ++w0, ++w1, ++w2, ++w3) {
                    TWO(0);
                }
            } else {
                for (; a != fours; a += 4, w0 += 4, w1 += 4, w2 += 4, w3 += 4) {
                    ORDERED(KEPT(w), "+r"(a));
                    ONE(0);
                    ONE(1);
                    ONE(2);
                    ONE(3);
                }
                for (; a != end; ++a, ++w0, ++w1, ++w2, ++w3) {
                    ONE(0);
                }
            }
            taps += row_taps;
            offset = tw_down(offset, at->step, at->ring);
        }
        int8_t *const first = to + channel, *const second = first + units;
        FINISH(0);
        FINISH(1);
        FINISH(2);
        FINISH(3);
    }
}

void tw_conv_2d_s8_scalar_part(const tw_conv *p, tw_view in, tw_view out, tw_range range)
{
    const tw_span within = tw_within(p, range);
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->shape.out.c);
        tw_window window = tw_window_of(&p->shape, &in, y, p->shape.in.c);
        windows at;
        at.data = (const int8_t *)in.data;
        at.next = p->shape.stride.w * p->shape.in.c;
        at.rows = window.rows;
        at.step = window.step;
        at.ring = window.ring;
        for (int32_t x = range.col_begin; x < range.col_end;) {
            const int two = x >= within.begin && x + 1 < within.end;
            if (two && x >= within.begin + 2) { /* the pair before was inside, too */
                at.offset += 2 * at.next;
            } else {
                tw_window_cols(&p->shape, &window, x);
                at.offset = window.offset;
                at.run = window.cols * p->shape.in.c;
                at.taps = p->weights + window.tap * p->shape.in.c;
            }
            outputs(p, &at, two, to);
            x += 1 + two;
            to += two ? 2 * p->shape.out.c : p->shape.out.c;
        }
    }
}

TW_WHOLE_FORM(tw_conv_2d_s8_scalar, tw_conv, tw_whole(in, p->shape.in), tw_whole(out, p->shape.out), p->shape.out)
