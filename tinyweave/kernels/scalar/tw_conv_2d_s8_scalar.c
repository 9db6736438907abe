/* tw_conv_2d_s8_scalar.c - int8 convolution for cores that multiply words one at a time: two pixels times four filters. Each
 * weight is loaded once for two pixels, each input once for four filters. tw_conv_scalar.h has the layers and the cost. */
#include "tw_conv_scalar.h"

#define FILTERS 4 /* of a group; tests draw as many */
#define WEIGHTS(k) (FILTERS * (k)) /* bytes of the weights of k inputs */

/* The windows of one or two pixels of a row, and groups of filters. The assembly reads the members in this order. */
typedef struct {
    const int8_t *weights;      /* the first weights of the first group, [input][filter] */
    const uint32_t *sums;       /* its initial sums; later groups follow in the stream */
    int32_t entry;              /* ENTRY */
    int32_t tail;               /* bytes of weights from the end of the window to the multipliers */
    int32_t zero;               /* of the output */
    const int8_t *data;         /* the first window's first byte */
    int32_t rows, groups;       /* rows of a window; groups of filters */
    int8_t *to, *other;         /* outputs of the first window, of the second; equal if there is no second */
    const int8_t *end;          /* for the assembly: end of a row */
    int32_t left;               /* for the assembly: rows to come */
    int32_t gap;                /* bytes from the end of a window's row to the begin of the next */
    const int8_t *limit;        /* end of the ring buffer: rows do not begin at or after it */
    int32_t ring;               /* bytes of the ring buffer */
    int32_t next, run;          /* bytes from the first window to the second; bytes of a row of a window */
    int32_t skip;               /* bytes of weights from the end of a row of the window to the next row */
    int32_t low, high;          /* the clamp less the zero point */
} windows;

#if defined(__ARM_ARCH_7M__) && defined(__GNUC__)

/* One input, in r3, of the first window and one, in r12, of the second times four filters: 14 instructions of four bytes. They
 * have no spaces, because C99 limits strings to 4,095 characters. */
#define WEIGHT(sum, other) "ldrsb.w lr,[r2],#1\nmla " sum ",r3,lr," sum "\nmla " other ",r12,lr," other "\n"
#define TWO                                    \
    "ldrsb.w r3, [r0], #1\n"                   \
    "ldrsb.w r12, [r1], #1\n"                  \
    WEIGHT("r4", "r8") WEIGHT("r5", "r9") WEIGHT("r6", "r10") WEIGHT("r7", "r11")
/* The same of one window: 9 instructions. */
#define ONLY(sum) "ldrsb.w lr,[r2],#1\nmla " sum ",r3,lr," sum "\n"
#define ONE "ldrsb.w r3, [r0], #1\n" ONLY("r4") ONLY("r5") ONLY("r6") ONLY("r7")
/* Where the loop of a row is entered, in bytes from label 1: in the first round so that the row ends with a round. The loop of
 * two windows follows that of one. */
#define ENTRY(two, run) ((two) ? 16 * 9 + 16 + 4 * 14 * (-(run) & 3) : 4 * 9 * (-(run) & 3))

#define FINISH(k, sum, other) "ldr.w r12, [r2], #4\n ldrb r0, [r2, #" k "]\n" TW_RESCALED(sum) TW_RESCALED(other)
#define STORE(a, b, c, d, to) \
    "strb " a ", [" to "], #1\n strb " b ", [" to "], #1\n strb " c ", [" to "], #1\n strb " d ", [" to "], #1\n"

/* Computes the outputs of groups of filters for one window or two; outputs saturate to int8.
 * Registers at entry: r0: the windows. In the loops r0, r1: inputs of the first and the second window; r2: weights; r4 .. r7: the
 * first window's sums; r8 .. r11: the second's; r3, r12: inputs; lr: a weight. At the end of a group r2: multipliers; r3: zero.
 * Stack, 96 bytes: the members from gap on behind those from entry on; r4 .. r11.
 * Loops: four inputs per round. The first round of a row is entered in the middle if the row is no multiple of four.
 * Equals finish_groups() below in plain C, but for the clamp. */
#define GROUPS                                 \
    "push {r4-r11}\n"                          \
    "ldm r0!, {r2-r11}\n"                      \
    "adr.w r12, 1f\n"                          \
    "add r4, r12\n"                            \
    "orr r4, r4, #1\n"                         \
    "push {r4-r11}\n"                          \
    "ldm r0, {r4-r11}\n"                       \
    "push {r4-r11}\n"                          \
    "5:\n"                                     \
    "ldm r3, {r4-r7}\n"                        \
    "mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n" \
    "ldrd r0, r3, [sp, #44]\n"                 \
    "str r3, [sp, #4]\n"                       \
    "cmp r3, #0\n"                             \
    "beq.w 4f\n"                               \
    "b.w 3f\n"                                 \
    ".balign 4\n"                              \
    "1:\n"                                     \
    ONE ONE ONE ONE                            \
    "ldr.w r3, [sp]\n"                         \
    "cmp.w r0, r3\n"                           \
    "bne.w 1b\n"                               \
    "b.w 2f\n"                                 \
    "0:\n"                                     \
    TWO TWO TWO TWO                            \
    "ldr r3, [sp]\n"                           \
    "cmp r0, r3\n"                             \
    "bne.w 0b\n"                               \
    "2:\n"                                     \
    "ldrd r3, r12, [sp, #4]\n"                 \
    "subs r3, #1\n"                            \
    "beq 4f\n"                                 \
    "str r3, [sp, #4]\n"                       \
    "add r0, r12\n"                            \
    "ldrd r3, r12, [sp, #12]\n"                \
    "cmp r0, r3\n"                             \
    "it hs\n"                                  \
    "subhs.w r0, r0, r12\n"                    \
    "ldr r3, [sp, #28]\n"                      \
    "add r2, r3\n"                             \
    "3:\n"                                     \
    "ldrd r3, r12, [sp, #20]\n"                \
    "adds r1, r0, r3\n"                        \
    "add r12, r0\n"                            \
    "str.w r12, [sp]\n"                        \
    "ldr r3, [sp, #32]\n"                      \
    "bx r3\n"                                  \
    "4:\n"                                     \
    "ldrd r0, r3, [sp, #36]\n"                 \
    "add r2, r0\n"                             \
    FINISH("12", "r4", "r8") FINISH("9", "r5", "r9") FINISH("6", "r6", "r10") FINISH("3", "r7", "r11") \
    "ldrd r0, r1, [sp, #56]\n"                 \
    STORE("r8", "r9", "r10", "r11", "r1")      \
    STORE("r4", "r5", "r6", "r7", "r0")        \
    "strd r0, r1, [sp, #56]\n"                 \
    "adds r3, r2, #4\n"                        \
    "adds r2, #20\n"                           \
    "ldr r0, [sp, #52]\n"                      \
    "subs r0, #1\n"                            \
    "str r0, [sp, #52]\n"                      \
    "bne.w 5b\n"                               \
    "add sp, #64\n"                            \
    "pop {r4-r11}\n"

static void finish_groups(const windows *at)
{
    register const windows *given __asm__("r0") = at;
    __asm__ volatile(".syntax unified\n" GROUPS : "+r"(given) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory");
    const int32_t low = at->low + at->zero, high = at->high + at->zero;
    if (low > -128 || high < 127) {
        for (int32_t k = 0; k < FILTERS * at->groups; ++k) {
            at->other[k] = (int8_t)tw_clamp(at->other[k], low, high);
            at->to[k] = (int8_t)tw_clamp(at->to[k], low, high);
        }
    }
}

#else

#define ENTRY(two, run) (two) /* whether there are two windows */

/* An empty asm statement that uses the sums or pointers: compilers then move no load across it and keep each pointer in a
 * register of its own. Without it GCC and Clang spill some of them to the stack. It emits no instruction. */
#if defined(__riscv) && defined(__GNUC__)
#define KEPT(k) "+r"(k##0), "+r"(k##1), "+r"(k##2), "+r"(k##3)
#define ORDERED(...) __asm__ volatile("" : __VA_ARGS__ : : "memory")
#else
#define ORDERED(...)
#endif

/* Adds the product of input i and filter k's weight to one sum or two, modulo 2^32. TWO and ONE do so for four filters. */
#define PRODUCT(k, i, OTHER)                      \
    do {                                          \
        const int32_t weight = w[WEIGHTS(i) + k]; \
        a##k += (uint32_t)(weight * value);       \
        OTHER                                     \
    } while (0)
#define OTHER(k) b##k += (uint32_t)(weight * other);
#define TWO(i)                                  \
    do {                                        \
        ORDERED(KEPT(a), KEPT(b));              \
        const int32_t value = a[i], other = b[i]; \
        PRODUCT(0, i, OTHER(0));                \
        PRODUCT(1, i, OTHER(1));                \
        PRODUCT(2, i, OTHER(2));                \
        PRODUCT(3, i, OTHER(3));                \
    } while (0)
#define ONE(i)                     \
    do {                           \
        ORDERED(KEPT(a));          \
        const int32_t value = a[i]; \
        PRODUCT(0, i, );           \
        PRODUCT(1, i, );           \
        PRODUCT(2, i, );           \
        PRODUCT(3, i, );           \
    } while (0)

#define RESCALED(sum) (int8_t)(tw_clamp(tw_rescale_down((int32_t)(sum), twice, less), low, high) + zero)
#define FINISH(k)                                                     \
    do {                                                              \
        const uint32_t twice = rescale[k];                            \
        const int32_t less = ((const int8_t *)(rescale + FILTERS))[k]; \
        to[k] = RESCALED(a##k);                                       \
        if (two) {                                                    \
            other_to[k] = RESCALED(b##k);                             \
        }                                                             \
    } while (0)

/* Computes the outputs of groups of filters for one window or two. Not inlined, so that the loops have all registers. */
TW_NOT_INLINE void finish_groups(const windows *at)
{
    const int32_t two = at->entry, zero = at->zero, low = at->low, high = at->high;
    const uint32_t *sums = at->sums;
    const int8_t *w = at->weights;
    int8_t *to = at->to, *other_to = at->other;
    for (int32_t group = 0; group < at->groups; ++group) {
        uint32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
        uint32_t b0 = a0, b1 = a1, b2 = a2, b3 = a3;
        const int8_t *a = at->data;
        for (int32_t row = at->rows; row > 0;) {
            const int8_t *b = a + at->next;
            const int8_t *const end = a + at->run, *const fours = a + (at->run & ~3);
            if (two) {
                for (; a != fours; a += 4, b += 4, w += WEIGHTS(4)) {
                    ORDERED("+r"(w), "+r"(a), "+r"(b));
                    TWO(0);
                    TWO(1);
                    TWO(2);
                    TWO(3);
                }
                for (; a != end; ++a, ++b, w += WEIGHTS(1)) {
                    TWO(0);
                }
            } else {
                for (; a != fours; a += 4, w += WEIGHTS(4)) {
                    ORDERED("+r"(w), "+r"(a));
                    ONE(0);
                    ONE(1);
                    ONE(2);
                    ONE(3);
                }
                for (; a != end; ++a, w += WEIGHTS(1)) {
                    ONE(0);
                }
            }
            if (--row > 0) {
                w += at->skip;
                a += at->gap;
                a -= a >= at->limit ? at->ring : 0;
            }
        }
        const uint32_t *const rescale = (const uint32_t *)(const void *)(w + at->tail);
        FINISH(0);
        FINISH(1);
        FINISH(2);
        FINISH(3);
        sums = rescale + FILTERS + 1;
        w = (const int8_t *)(sums + FILTERS);
        to += FILTERS;
        other_to += FILTERS;
    }
}

#endif

/* Adds the weights of `count` inputs outside of the map to the sums of four filters. Returns the weights after them and after
 * those of `inside` inputs. */
static const int8_t *add_weights(const int8_t *weights, int32_t count, int32_t inside, int32_t *sums)
{
    for (const int8_t *const end = weights + WEIGHTS(count); weights != end; weights += FILTERS) {
        sums[0] += weights[0];
        sums[1] += weights[1];
        sums[2] += weights[2];
        sums[3] += weights[3];
    }
    return weights + WEIGHTS(inside);
}

/* Adds to the initial sums of a group what inputs outside of the map add: the zero point times their weights. */
static void add_outside(const tw_conv_shape *p, const windows *at, int32_t before, const int8_t *weights, uint32_t *sums)
{
    const int32_t row = p->kernel.w * p->in.c;
    const int8_t *const end = weights + WEIGHTS(p->kernel.h * row);
    int32_t outside[FILTERS] = {0, 0, 0, 0};
    if (at->rows) {
        weights = add_weights(weights, before, at->run, outside);
    }
    for (int32_t left = at->rows; left > 1; --left) {
        weights = add_weights(weights, row - at->run, at->run, outside);
    }
    add_weights(weights, (int32_t)(end - weights) / FILTERS, 0, outside);
    for (int32_t k = 0; k < FILTERS; ++k) {
        sums[k] += (uint32_t)(p->in_zero * outside[k]);
    }
}

/* Computes the outputs of one pixel or two; the window begins with input `before`. */
static void finish_pixels(const tw_conv_scalar *p, windows *at, int32_t before, int two, int8_t *to)
{
    const int32_t units = p->conv.out.c, taps = p->conv.kernel.h * p->conv.kernel.w * p->conv.in.c;
    const int is_whole = at->rows * at->run == taps;
    const uint32_t *stream = p->stream;
    uint32_t sums[FILTERS];
    int8_t spare[2 * FILTERS];
    for (int32_t left = units, count; left > 0; left -= count, to += count) {
        const int8_t *const weights = (const int8_t *)(stream + FILTERS);
        const int is_part = left < FILTERS;
        count = is_whole && !is_part ? left & ~(FILTERS - 1) : FILTERS;
        at->groups = count / FILTERS;
        at->weights = weights + (is_whole ? 0 : WEIGHTS(before));
        at->sums = stream;
        if (!is_whole) {
            for (int32_t k = 0; k < FILTERS; ++k) {
                sums[k] = stream[k];
            }
            add_outside(&p->conv, at, before, weights, sums);
            at->sums = sums;
        }
        at->to = is_part ? spare : to;
        at->other = !two ? at->to : is_part ? spare + FILTERS : to + units;
        finish_groups(at);
        for (int32_t k = 0; is_part && k < left; ++k) {
            to[k] = at->to[k];
            to[k + (two ? units : 0)] = at->other[k];
        }
        stream += at->groups * (taps + 2 * FILTERS + 1);
    }
}

/* Moves the windows to output column x of a row. Returns the number of its first input in the window. */
static int32_t move_to(const tw_conv_shape *p, tw_window *window, const int8_t *data, int32_t x, int two, windows *at)
{
    const int32_t depth = p->in.c, row = p->kernel.w * depth;
    tw_window_cols(p, window, x);
    const int32_t before = window->tap * depth;
    at->rows = window->cols ? window->rows : 0;
    at->run = window->cols * depth;
    at->data = data + window->offset;
    at->gap = window->step - at->run;
    at->next = two ? p->stride.w * depth : 0;
    at->skip = WEIGHTS(row - at->run);
    at->tail = WEIGHTS(p->kernel.h * row - before - (at->rows ? (at->rows - 1) * row + at->run : 0));
    at->entry = ENTRY(two, at->run);
    return before;
}

void tw_conv_2d_s8_scalar_part(const tw_conv_scalar *p, tw_view in, tw_view out, tw_range range)
{
    const tw_span within = tw_within(&p->conv, range);
    const int32_t zero = p->conv.out_zero;
    windows at;
    at.zero = zero;
    at.low = p->conv.out_min - zero;
    at.high = p->conv.out_max - zero;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, p->conv.out.c);
        tw_window window = tw_window_of(&p->conv, &in, y, p->conv.in.c);
        int32_t before = 0;
        at.limit = (const int8_t *)in.data + window.ring;
        at.ring = window.ring;
        for (int32_t x = range.col_begin; x < range.col_end;) {
            const int two = x >= within.begin && x + 1 < within.end;
            if (two && x >= within.begin + 2) { /* the pair before was inside, too */
                at.data += 2 * at.next;
            } else {
                before = move_to(&p->conv, &window, (const int8_t *)in.data, x, two, &at);
            }
            finish_pixels(p, &at, before, two, to);
            x += 1 + two;
            to += two ? 2 * p->conv.out.c : p->conv.out.c;
        }
    }
}

TW_WHOLE_FORM(tw_conv_2d_s8_scalar, tw_conv_scalar, tw_whole(in, p->conv.in), tw_whole(out, p->conv.out), p->conv.out)
