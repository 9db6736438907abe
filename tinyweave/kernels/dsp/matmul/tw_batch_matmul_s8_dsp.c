/* tw_batch_matmul_s8_dsp.c - products of int8 matrices with the Arm DSP extension, a row times four columns at a time.
 *
 * Layers: batch_matmul whose first operand is not transposed, with sums below 2^30 and shifts of -31 to -2. SXTAB16 widens two
 * elements and takes off their zero point, so that SMLAD adds two products. A quad is four neighbouring elements k .. k + 3 of
 * a row: lanes (k, k + 2) and (k + 1, k + 3).
 *
 * Cost, per 16 MACs: 26 instructions where the elements of a column of b are neighbours, 33 where the elements of a row are. One
 * row at a time, so that outputs may overwrite an operand as in portable C.
 */
#include "tw_batch_matmul_s8.h"

#include "tw_dsp.h"

#define COLUMNS 4

/* Values that the loops need besides their pointers. */
typedef struct {
    uint32_t a_zeros, b_zeros; /* negated zero points, as lanes */
    const int8_t *end;         /* of the quads of a row of a */
    int32_t sums[COLUMNS];
} tw_frame;

#if TW_HAS_DSP

/* Registers at entry: r0: elements of a; r1: of b; r2: bytes from a column of b to the next, or from a row; r3: tw_frame. In the
 * loop r4 .. r7: sums; r8, r9: a quad of a; r10, r11: zero points; r3, r12, lr: elements of b.
 * Stack, 40 bytes: end of the quads; r3, and r4 .. r11, saved here since the code needs all registers. */
#define BEGIN                            \
    "push {r3-r11}\n"                    \
    "ldm.w r3, {r10, r11, r12}\n"        \
    "push {r12}\n"                       \
    "mov r4, #0\n"                       \
    "mov r5, r4\n"                       \
    "mov r6, r4\n"                       \
    "mov r7, r4\n"                       \
    "add r3, r2, r2, lsl #1\n"           \
    "1:\n"                               \
    "ldr.w r9, [r0], #4\n"               \
    "sxtab16 r8, r10, r9\n"              \
    "sxtab16 r9, r10, r9, ror #8\n"
#define END                              \
    "ldr r12, [sp]\n"                    \
    "cmp r0, r12\n"                      \
    "bne.w 1b\n"                         \
    "add sp, sp, #4\n"                   \
    "pop {r3}\n"                         \
    "add r3, r3, #12\n"                  \
    "stm r3, {r4-r7}\n"                  \
    "pop {r4-r11}\n"

/* A quad times that of one column. */
#define COLUMN(at, sum)                  \
    "ldr.w r12, " at "\n"                \
    "sxtab16 lr, r11, r12\n"             \
    "smlad " sum ", r8, lr, " sum "\n"   \
    "sxtab16 r12, r11, r12, ror #8\n"    \
    "smlad " sum ", r9, r12, " sum "\n"

/* Four columns whose elements are neighbours; r3: three times r2. The column at r1 comes last, so that its load moves r1. */
#define BY_COLUMNS                                                                                            \
    BEGIN COLUMN("[r1, r2]", "r5") COLUMN("[r1, r2, lsl #1]", "r6") COLUMN("[r1, r3]", "r7") COLUMN("[r1], #4", "r4") END

/* Lanes (k, k + 2) or (k + 1, k + 3) of a, in register x, times four neighbouring columns. r12, lr: the elements of both rows,
 * of which PKHBT joins those of columns 0 and 1, PKHTB those of columns 2 and 3. */
#define HALF(x)                          \
    "ldr.w r12, [r1]\n"                  \
    "ldr.w lr, [r1, r2, lsl #1]\n"       \
    "add r1, r1, r2\n"                   \
    "pkhbt r3, r12, lr, lsl #16\n"       \
    "pkhtb r12, lr, r12, asr #16\n"      \
    "sxtab16 lr, r11, r3\n"              \
    "smlad r4, " x ", lr, r4\n"          \
    "sxtab16 r3, r11, r3, ror #8\n"      \
    "smlad r5, " x ", r3, r5\n"          \
    "sxtab16 lr, r11, r12\n"             \
    "smlad r6, " x ", lr, r6\n"          \
    "sxtab16 r12, r11, r12, ror #8\n"    \
    "smlad r7, " x ", r12, r7\n"

/* Four neighbouring columns. */
#define BY_ROWS BEGIN HALF("r8") HALF("r9") "add r1, r1, r2, lsl #1\n" END

/* Runs BY_COLUMNS or BY_ROWS on at least one quad. Equals their plain C below. */
#define LOOP(code, x, y, bytes, frame)                                                                         \
    do {                                                                                                       \
        register const int8_t *from __asm__("r0") = (x);                                                       \
        register const int8_t *with __asm__("r1") = (y);                                                       \
        register int32_t apart __asm__("r2") = (bytes);                                                        \
        register tw_frame *to __asm__("r3") = (frame);                                                         \
        __asm__ volatile(code : "+r"(from), "+r"(with), "+r"(apart), "+r"(to) : : "r12", "lr", "cc", "memory"); \
    } while (0)

static inline void by_columns(const int8_t *a, const int8_t *b, int32_t column, tw_frame *frame)
{
    LOOP(BY_COLUMNS, a, b, column, frame);
}

static inline void by_rows(const int8_t *a, const int8_t *b, int32_t row, tw_frame *frame) { LOOP(BY_ROWS, a, b, row, frame); }

#else

/* Adds the products of two lanes of a with those of two columns: the even and the odd bytes of a word. */
static inline void add_two(uint32_t lanes, uint32_t word, uint32_t zeros, int32_t *sums)
{
    sums[0] = tw_smlad(lanes, tw_sxtab16(zeros, word), sums[0]);
    sums[1] = tw_smlad(lanes, tw_sxtab16_odd(zeros, word), sums[1]);
}

static inline void by_columns(const int8_t *a, const int8_t *b, int32_t column, tw_frame *frame)
{
    memset(frame->sums, 0, sizeof frame->sums);
    for (; a != frame->end; a += 4, b += 4) {
        const uint32_t even = tw_sxtab16(frame->a_zeros, tw_word(a)), odd = tw_sxtab16_odd(frame->a_zeros, tw_word(a));
        for (int32_t i = 0; i < COLUMNS; ++i) {
            const uint32_t word = tw_word(b + i * column);
            frame->sums[i] = tw_smlad(even, tw_sxtab16(frame->b_zeros, word), frame->sums[i]);
            frame->sums[i] = tw_smlad(odd, tw_sxtab16_odd(frame->b_zeros, word), frame->sums[i]);
        }
    }
}

static inline void by_rows(const int8_t *a, const int8_t *b, int32_t row, tw_frame *frame)
{
    memset(frame->sums, 0, sizeof frame->sums);
    for (; a != frame->end; a += 4, b += 2 * row) {
        const uint32_t even = tw_sxtab16(frame->a_zeros, tw_word(a)), odd = tw_sxtab16_odd(frame->a_zeros, tw_word(a));
        for (int32_t half = 0; half < 2; ++half, b += row) {
            const uint32_t first = tw_word(b), second = tw_word(b + 2 * row);
            add_two(half ? odd : even, tw_pkhbt(first, second), frame->b_zeros, frame->sums);
            add_two(half ? odd : even, tw_pkhtb(first, second), frame->b_zeros, frame->sums + 2);
        }
    }
}

#endif

/* The output of a sum of products: tw_matmul_output within the bounds above. */
static inline int8_t output(const tw_batch_matmul *p, int32_t sum)
{
    return tw_rescale_doubled(2 * sum, p->multiplier, 1 << (32 + p->shift), p->out_zero, -1);
}

/* Computes four outputs of a row. */
static void four_outputs(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, tw_frame *frame, int8_t *to)
{
    int32_t *const sums = frame->sums;
    if (p->depth < 4) {
        memset(sums, 0, sizeof frame->sums);
    } else if (p->b_step == 1) {
        by_columns(a, b, p->b_col, frame);
    } else {
        by_rows(a, b, p->b_step, frame);
    }
    for (int32_t k = p->depth & ~3; k < p->depth; ++k) {
        const int32_t x = a[k] - p->a_zero;
        const int8_t *y = b + k * p->b_step;
        for (int32_t i = 0; i < COLUMNS; ++i, y += p->b_col) {
            sums[i] += x * (*y - p->b_zero);
        }
    }
    const int32_t first = sums[0], second = sums[1], third = sums[2], fourth = sums[3];
    to[0] = output(p, first);
    to[1] = output(p, second);
    to[2] = output(p, third);
    to[3] = output(p, fourth);
}

/* The product of a row and a column. */
static int32_t one_product(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, const tw_frame *frame)
{
    int32_t sum = 0, k = 0;
    for (; p->b_step == 1 && k < (p->depth & ~3); k += 4) {
        const uint32_t x = tw_word(a + k), y = tw_word(b + k);
        sum = tw_smlad(tw_sxtab16(frame->a_zeros, x), tw_sxtab16(frame->b_zeros, y), sum);
        sum = tw_smlad(tw_sxtab16_odd(frame->a_zeros, x), tw_sxtab16_odd(frame->b_zeros, y), sum);
    }
    for (; k < p->depth; ++k) {
        sum += (a[k] - p->a_zero) * (b[k * p->b_step] - p->b_zero);
    }
    return sum;
}

static int8_t *multiply(const tw_batch_matmul *p, const int8_t *a, const int8_t *b, int8_t *to)
{
    tw_frame frame = {tw_lanes(-p->a_zero, -p->a_zero), tw_lanes(-p->b_zero, -p->b_zero), NULL, {0}};
    const int32_t whole = p->cols & ~(COLUMNS - 1);
    for (int32_t i = 0; i < p->rows; ++i, a += p->a_row) {
        frame.end = a + (p->depth & ~3);
        int32_t j = 0;
        for (; j < whole; j += COLUMNS, to += COLUMNS) {
            four_outputs(p, a, b + j * p->b_col, &frame, to);
        }
        for (; j < p->cols; ++j) {
            *to++ = output(p, one_product(p, a, b + j * p->b_col, &frame));
        }
    }
    return to;
}

TW_MATMUL_FORMS(tw_batch_matmul_s8_dsp, multiply)
