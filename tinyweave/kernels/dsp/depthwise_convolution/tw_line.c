/* tw_line.c - lines of columns for depthwise convolutions with the Arm DSP extension: gathers them, and computes outputs from
 * them. tw_line.h has the layers, the layout of the weights and the cost. */
#include "tw_line.h"

#include <stddef.h>

#include "tw_dsp.h"
#include "tw_line_put.h"
#include "tw_line_quads.h"
#include "tw_line_rows.h"

int32_t tw_columns_set(tw_columns *columns, int32_t left, int32_t words, int32_t end)
{
    columns->before = end > 0 ? tw_min(tw_max(-left, 0) / 2, words) : words;
    columns->first = left < 0 && (left & 1) && columns->before < words;
    const int32_t filled = columns->before + columns->first, inside = left + 2 * filled;
    columns->pairs = tw_clamp((end - inside) / 2, 0, words - filled);
    const int32_t full = filled + columns->pairs;
    columns->last = full < words && inside + 2 * columns->pairs < end;
    columns->after = words - full - columns->last;
    return tw_max(left, 0);
}

void tw_line_fill(const tw_columns *columns, uint32_t *to, const int8_t *data, int32_t offset)
{
    const uint32_t padding = columns->padding;
    const int32_t step = columns->step;
    to += columns->before;
    for (int32_t row = columns->rows; row > 0; --row) {
        const int8_t *from = data + offset;
        uint32_t *word = to;
        if (columns->first) {
            tw_line_put(word++, padding, tw_word(from));
            from += step;
        }
        for (int32_t i = columns->pairs >> 1; i > 0; --i) {
            tw_line_put_two(&word, &from, step);
        }
        if (columns->pairs & 1) {
            tw_line_put(word++, tw_word(from), tw_word(from + step));
            from += 2 * step;
        }
        if (columns->last) {
            tw_line_put(word, tw_word(from), padding);
        }
        to += TW_LINE_ROW_WORDS;
        offset = tw_down(offset, columns->down, columns->ring);
    }
}

void tw_line_pad(const tw_columns *columns, uint32_t *to, int whole)
{
    const int32_t inside = columns->first + columns->pairs + columns->last;
    for (int32_t i = columns->before + (whole ? inside : 0); i > 0; --i) {
        tw_line_put(to++, columns->padding, columns->padding);
    }
    to += whole ? 0 : inside;
    for (int32_t i = columns->after; i > 0; --i) {
        tw_line_put(to++, columns->padding, columns->padding);
    }
}

/* Runs ROW for each channel and output row; its inputs begin at `first`, its outputs at `out`. */
#define EACH_ROW(line, words, ROW)                                                                             \
    for (int32_t plane = 0; plane < (line)->channels; ++plane) {                                               \
        for (int32_t y = 0; y < (line)->rows; ++y) {                                                           \
            const uint32_t *first = (line)->x + plane * TW_LINE_WORDS + y * (line)->stride * TW_LINE_ROW_WORDS; \
            int8_t *out = (line)->to + plane + y * (line)->down;                                               \
            ROW                                                                                                \
        }                                                                                                      \
        words += (line)->taps * (line)->pairs + 3;                                                             \
    }

/* Requantises and stores the first `left` of four sums, at most four; words: multiplier and power. Returns the next output. */
static inline int8_t *finish(const tw_line *line, const uint32_t *words, int8_t *to, int32_t left, const int32_t *sums)
{
    for (int32_t i = 0; i < tw_min(left, 4); ++i) {
        *to = tw_rescale_doubled(sums[i], tw_signed(words[0]), tw_signed(words[1]), line->zero, line->sign);
        to += line->step;
    }
    return to;
}

/* Stride 1, any width: adds the products of word x[i] to two sums, as their first word, one between, or their last. */
#define FIRST(i, even, odd)                    \
    even = tw_smlad(x[i], w[0], even);         \
    odd = tw_smlatb(x[i], w[0], odd);
#define MIDDLE(i, even, odd, k)                \
    odd = tw_smlad(x[i], w[k], odd);           \
    even = tw_smlad(x[i], w[(k) + 1], even);
#define LAST(i, even, odd, k)                  \
    odd = tw_smlad(x[i], w[k], odd);           \
    even = tw_smlabt(x[i], w[k], even);

/* Computes a row of outputs of one channel at stride 1, four at a time. */
static void any_row(const tw_line *line, const uint32_t *words, const uint32_t *from, int8_t *to)
{
    const int32_t pairs = line->pairs;
    const uint32_t *const end = words + 1 + line->taps * pairs;
    for (int32_t left = line->count; left > 0; left -= 4) {
        const uint32_t *x = from;
        int32_t sum0 = tw_signed(words[0]), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (const uint32_t *w = words + 1; w != end; w += pairs) {
            FIRST(0, sum0, sum1)
            FIRST(1, sum2, sum3)
            for (int32_t i = 1, k = 1; k + 1 < pairs; ++i, k += 2) {
                MIDDLE(i, sum0, sum1, k)
                MIDDLE(i + 1, sum2, sum3, k)
            }
            LAST(pairs / 2, sum0, sum1, pairs - 1)
            LAST(pairs / 2 + 1, sum2, sum3, pairs - 1)
            x += TW_LINE_ROW_WORDS;
        }
        const int32_t sums[4] = {sum0, sum1, sum2, sum3};
        to = finish(line, end, to, left, sums);
        from += 2;
    }
}

void tw_line_any_1(const tw_line *line)
{
    const uint32_t *words = line->words;
    EACH_ROW(line, words, any_row(line, words, first, out);)
}

#if TW_HAS_DSP

/* What the assembly of FOURS needs for all rows of a channel. It loads the members in this order. */
typedef struct {
    int32_t zero;
    int32_t last_1, last_2, last_3;  /* as at_1 .. at_3 for the last four; superfluous outputs go where others overwrite them */
    const uint32_t *end;             /* end of the line, the last four included */
    int32_t tail;                    /* bytes from `whole` to `end` */
    int32_t rows;
    int32_t x_on, to_on, row_on;     /* bytes from the end of a line, and of its outputs, to the next row; from row to row */
    const uint32_t *words;
    int8_t *to;
    int32_t at_1, at_2, at_3, on;    /* bytes from an output to the next three; to the next four */
    int32_t back;                    /* bytes from the end of the window's last row back to its first row for the next four */
    const uint32_t *whole;           /* end of the whole fours of the line; `end` and it are those of the current row */
    uint32_t skip;                   /* bytes of code of the rows that the window lacks */
    const uint32_t *x;
} tw_fours;

/* All rows of outputs of one channel, four sums at a time; `row`: a row of the window, for example FOURS_3_1.
 * Registers: r0: line; r1: weights, then multiplier and power; r8 .. r11: sums; lr: the entry of the loop; r12: `whole`; the
 * others: inputs and weights of a row; for the outputs r2: where they go, r3 .. r5: their offsets, r6: to the next four, r7:
 * back.
 * Stack, 108 bytes: r4 .. r11, saved here since the code needs all registers; below them [sp] words, +4 to, +8 at_1, +12 at_2,
 * +16 at_3, +20 on, +24 back, +28 whole, +32 the entry instead of `skip`, +36 zero, +40 last_1, +44 last_2, +48 last_3, +52
 * end, +56 tail, +60 rows, +64 x_on, +68 to_on, +72 row_on.
 * Loop: TW_LINE_MOST_TAPS rows of the window are unrolled; a window of fewer rows enters late, at label 2 + skip.
 * Order: a row of the window costs no branch and no pointer but r0 and r1. Outputs are stored from the fourth to the first, so
 * that of the last four the superfluous ones are overwritten. Label 1 swaps in the offsets of the last four; label 4 begins the
 * next row, with the offsets of whole fours. Equals any_row() above at stride 1, plain_row() below at stride 2. */
#define FINISH_FOUR(sum, fix) "smmulr " sum ", " sum ", r2\n" TW_OUTPUT(sum, fix, "r3", "r4")
#define FOURS(row, fix)                \
    "push {r4-r11}\n"                  \
    "ldm r0!, {r1-r10}\n"              \
    "push {r1-r10}\n"                  \
    "ldm r0!, {r1-r7, r12, lr}\n"      \
    "adr r8, 2f\n"                     \
    "add lr, lr, r8\n"                 \
    "orr lr, lr, #1\n"                 \
    "push {r1-r7, r12, lr}\n"          \
    "ldr r0, [r0]\n"                   \
    "b.w 3f\n"                         \
    "1:\n"                             \
    "ldr r2, [sp, #52]\n"              \
    "cmp r0, r2\n"                     \
    "beq.w 4f\n"                       \
    "str r2, [sp, #28]\n"              \
    "ldr r2, [sp, #40]\n"              \
    "str r2, [sp, #8]\n"               \
    "ldrd r2, r3, [sp, #44]\n"         \
    "strd r2, r3, [sp, #12]\n"         \
    "bx lr\n"                          \
    ".p2align 2\n"                     \
    "2:\n"                             \
    ".rept 7\n" row ".endr\n"          \
    "ldm r1, {r2, r3}\n"               \
    "ldr r4, [sp, #36]\n"              \
    FINISH_FOUR("r8", fix)             \
    FINISH_FOUR("r9", fix)             \
    FINISH_FOUR("r10", fix)            \
    FINISH_FOUR("r11", fix)            \
    "ldm sp, {r1-r7, r12, lr}\n"       \
    "strb r11, [r2, r5]\n"             \
    "strb r10, [r2, r4]\n"             \
    "strb r9, [r2, r3]\n"              \
    "strb r8, [r2]\n"                  \
    "add r2, r2, r6\n"                 \
    "str r2, [sp, #4]\n"               \
    "sub r0, r0, r7\n"                 \
    "3:\n"                             \
    "ldr r8, [r1], #4\n"               \
    "mov r9, r8\n"                     \
    "mov r10, r8\n"                    \
    "mov r11, r8\n"                    \
    "cmp r0, r12\n"                    \
    "beq.w 1b\n"                       \
    "bx lr\n"                          \
    "4:\n"                             \
    "ldrd r2, r3, [sp, #56]\n"         \
    "subs r3, r3, #1\n"                \
    "beq.w 5f\n"                       \
    "str r3, [sp, #60]\n"              \
    "ldrd r4, r5, [sp, #64]\n"         \
    "ldr r3, [sp, #4]\n"               \
    "add r0, r0, r4\n"                 \
    "add r3, r3, r5\n"                 \
    "str r3, [sp, #4]\n"               \
    "ldr r4, [sp, #52]\n"              \
    "ldr r5, [sp, #72]\n"              \
    "ldr r6, [sp, #20]\n"              \
    "add r4, r4, r5\n"                 \
    "sub r12, r4, r2\n"                \
    "str r4, [sp, #52]\n"              \
    "str r12, [sp, #28]\n"             \
    "asr r2, r6, #2\n"                 \
    "asr r3, r6, #1\n"                 \
    "add r4, r2, r3\n"                 \
    "strd r2, r3, [sp, #8]\n"          \
    "str r4, [sp, #16]\n"              \
    "cmp r0, r12\n"                    \
    "beq.w 1b\n"                       \
    "bx lr\n"                          \
    "5:\n"                             \
    "add sp, sp, #76\n"                \
    "pop {r4-r11}\n"

/* A row of the window for four neighbouring sums r8 .. r11, for each width and stride. r2 onward: words of two weights; the
 * others: words of two columns. r0 advances by one row of lines, 256 bytes.
 * Order: the words that need r0 + 8 or more are loaded before the load that advances r0. Each word of inputs is loaded once and
 * used at once for all sums that it belongs to.
 * The size of each row must be 4 bytes times the instructions that FOURS_OF states: the loop is entered between rows.
 *
 * Stride 1. The words of weights are (w0, w1), (w1, w2), ..: even sums r8, r10 take every other word by SMLAD and the last
 * weight by SMLABT; odd sums r9, r11 take the first weight by SMLATB and every other word by SMLAD. */
#define FOURS_3_1                                                                                              \
    "ldrd r2, r3, [r1], #8\n"                                                                                  \
    "ldr.w r6, [r0, #8]\n"                                                                                     \
    "ldrd r4, r5, [r0], #256\n"                                                                                \
    "smlad r8, r4, r2, r8\n" "smlatb r9, r4, r2, r9\n"                                                         \
    "smlabt r8, r5, r3, r8\n" "smlad r9, r5, r3, r9\n" "smlad r10, r5, r2, r10\n" "smlatb r11, r5, r2, r11\n"  \
    "smlabt r10, r6, r3, r10\n" "smlad r11, r6, r3, r11\n"
#define FOURS_5_1                                                                                                 \
    "ldm.w r1!, {r2-r5}\n"                                                                                        \
    "ldrd r12, lr, [r0, #8]\n"                                                                                    \
    "ldrd r6, r7, [r0], #256\n"                                                                                   \
    "smlad r8, r6, r2, r8\n" "smlatb r9, r6, r2, r9\n"                                                            \
    "smlad r8, r7, r4, r8\n" "smlad r9, r7, r3, r9\n" "smlad r10, r7, r2, r10\n" "smlatb r11, r7, r2, r11\n"      \
    "smlabt r8, r12, r5, r8\n" "smlad r9, r12, r5, r9\n" "smlad r10, r12, r4, r10\n" "smlad r11, r12, r3, r11\n"  \
    "smlabt r10, lr, r5, r10\n" "smlad r11, lr, r5, r11\n"
#define FOURS_7_1                                                                                                \
    "ldm.w r1!, {r2-r7}\n"                                                                                       \
    "ldrd r12, lr, [r0, #8]\n"                                                                                   \
    "smlad r8, r12, r6, r8\n" "smlad r9, r12, r5, r9\n" "smlad r10, r12, r4, r10\n" "smlad r11, r12, r3, r11\n"  \
    "smlabt r8, lr, r7, r8\n" "smlad r9, lr, r7, r9\n" "smlad r10, lr, r6, r10\n" "smlad r11, lr, r5, r11\n"     \
    "ldr.w r12, [r0, #16]\n"                                                                                     \
    "smlabt r10, r12, r7, r10\n" "smlad r11, r12, r7, r11\n"                                                     \
    "ldrd r12, lr, [r0], #256\n"                                                                                 \
    "smlad r8, r12, r2, r8\n" "smlatb r9, r12, r2, r9\n"                                                         \
    "smlad r8, lr, r4, r8\n" "smlad r9, lr, r3, r9\n" "smlad r10, lr, r2, r10\n" "smlatb r11, lr, r2, r11\n"

/* Stride 2. The words of weights are (w0, w1), (w2, w3), .., the last with a zero: word k meets word i + k of the inputs for
 * sum i, so all products are SMLAD. */
#define FOURS_3_2                                                                                                 \
    "ldrd r2, r3, [r1], #8\n"                                                                                     \
    "ldr.w r4, [r0, #16]\n"                                                                                       \
    "ldrd r12, lr, [r0, #8]\n"                                                                                    \
    "ldrd r6, r7, [r0], #256\n"                                                                                   \
    "smlad r8, r6, r2, r8\n" "smlad r8, r7, r3, r8\n" "smlad r9, r7, r2, r9\n" "smlad r9, r12, r3, r9\n"          \
    "smlad r10, r12, r2, r10\n" "smlad r10, lr, r3, r10\n" "smlad r11, lr, r2, r11\n" "smlad r11, r4, r3, r11\n"
#define FOURS_5_2                                                                       \
    "ldm.w r1!, {r2-r4}\n"                                                              \
    "ldrd r12, lr, [r0, #16]\n"                                                         \
    "smlad r10, r12, r4, r10\n" "smlad r11, r12, r3, r11\n" "smlad r11, lr, r4, r11\n"  \
    "ldrd r12, lr, [r0, #8]\n"                                                          \
    "smlad r8, r12, r4, r8\n" "smlad r9, r12, r3, r9\n" "smlad r10, r12, r2, r10\n"     \
    "smlad r9, lr, r4, r9\n" "smlad r10, lr, r3, r10\n" "smlad r11, lr, r2, r11\n"      \
    "ldrd r12, lr, [r0], #256\n"                                                        \
    "smlad r8, r12, r2, r8\n" "smlad r8, lr, r3, r8\n" "smlad r9, lr, r2, r9\n"
#define FOURS_7_2                                                                                            \
    "ldm.w r1!, {r2-r5}\n"                                                                                   \
    "ldr.w r12, [r0, #24]\n"                                                                                 \
    "smlad r11, r12, r5, r11\n"                                                                              \
    "ldrd r12, lr, [r0, #16]\n"                                                                              \
    "smlad r9, r12, r5, r9\n" "smlad r10, r12, r4, r10\n" "smlad r11, r12, r3, r11\n"                        \
    "smlad r10, lr, r5, r10\n" "smlad r11, lr, r4, r11\n"                                                    \
    "ldrd r12, lr, [r0, #8]\n"                                                                               \
    "smlad r8, r12, r4, r8\n" "smlad r9, r12, r3, r9\n" "smlad r10, r12, r2, r10\n"                          \
    "smlad r8, lr, r5, r8\n" "smlad r9, lr, r4, r9\n" "smlad r10, lr, r3, r10\n" "smlad r11, lr, r2, r11\n"  \
    "ldrd r12, lr, [r0], #256\n"                                                                             \
    "smlad r8, r12, r2, r8\n" "smlad r8, lr, r3, r8\n" "smlad r9, lr, r2, r9\n"

/* Returns the members that are the same for all channels; advance: words of a line per four sums; size: bytes of code of a window's
 * row. */
static tw_fours fours_of(const tw_line *line, int32_t advance, uint32_t size)
{
    const int32_t step = line->step, rest = line->count & 3, fours = (line->count + 3) / 4;
    tw_fours frame;
    frame.words = line->words;
    frame.zero = line->zero;
    frame.tail = rest ? 4 * advance : 0;
    frame.rows = line->rows;
    frame.row_on = 4 * line->stride * TW_LINE_ROW_WORDS;
    frame.x_on = frame.row_on - 4 * advance * fours;
    frame.to_on = line->down - 4 * step * fours;
    frame.last_1 = rest > 1 ? step : 0;
    frame.last_2 = rest > 2 ? 2 * step : 0;
    frame.last_3 = rest == 2 ? step : frame.last_2;
    frame.at_1 = step;
    frame.at_2 = 2 * step;
    frame.at_3 = 3 * step;
    frame.on = 4 * step;
    frame.back = 4 * (line->taps * TW_LINE_ROW_WORDS - advance);
    frame.skip = (uint32_t)(TW_LINE_MOST_TAPS - line->taps) * size;
    return frame;
}

/* Runs `code` for each channel. */
#define RUN_CHANNELS(line, frame, advance, code)                                      \
    for (int32_t plane = 0; plane < (line)->channels; ++plane) {                      \
        (frame).x = (line)->x + plane * TW_LINE_WORDS;                                \
        (frame).to = (line)->to + plane;                                              \
        (frame).whole = (frame).x + (line)->count / 4 * (advance);                    \
        (frame).end = (frame).x + ((line)->count + 3) / 4 * (advance);                \
        TW_RUN(code, &(frame));                                                       \
        (frame).words += (line)->taps * (line)->pairs + 3;                            \
    }
/* Defines a tw_line_outputs; instructions: those of a row of the window. */
#define FOURS_OF(name, row, advance, instructions)                               \
    void name(const tw_line *line)                                               \
    {                                                                            \
        tw_fours frame = fours_of(line, advance, 4 * (instructions));            \
        if (line->sign) {                                                        \
            RUN_CHANNELS(line, frame, advance, FOURS(row, TW_FIX))                   \
        } else {                                                                 \
            RUN_CHANNELS(line, frame, advance, FOURS(row, TW_NO_FIX))                \
        }                                                                        \
    }

FOURS_OF(tw_line_3_1, FOURS_3_1, 2, 11)
FOURS_OF(tw_line_5_1, FOURS_5_1, 2, 15)
FOURS_OF(tw_line_7_1, FOURS_7_1, 2, 20)
FOURS_OF(tw_line_3_2, FOURS_3_2, 4, 12)
FOURS_OF(tw_line_5_2, FOURS_5_2, 4, 16)
FOURS_OF(tw_line_7_2, FOURS_7_2, 4, 21)

/* Two neighbouring outputs of a window of three rows, at stride 1 and 2. Registers and stack: TWOS in tw_line_rows.h; r1, lr:
 * words of two columns, then power and zero point, then bytes to the next output and the end of the row's pairs.
 * Order: per row of the window one LDRD of inputs, at stride 2 also an LDR, then four products. All weights stay in r4 .. r9.
 * PAIR_OUTPUTS rescales, clamps and stores both sums and advances the line by `bytes`.
 * Equals any_row() or plain_row() for two outputs. */
#define PAIR_OUTPUTS(fix, bytes) \
    "ldrd r1, lr, [sp]\n"        \
    "smmulr r11, r11, r10\n"     \
    "smmulr r12, r12, r10\n"     \
    fix("r11")                   \
    fix("r12")                   \
    "smmlar r11, r11, r1, lr\n"  \
    "smmlar r12, r12, r1, lr\n"  \
    "ldrd r1, lr, [sp, #8]\n"    \
    "ssat r11, #8, r11\n"        \
    "ssat r12, #8, r12\n"        \
    "add r0, r0, #" bytes "\n"   \
    "strb r12, [r2, r1]\n"       \
    "strb r11, [r2]\n"           \
    "add r2, r2, r1, lsl #1\n"
#define PAIR_1(fix)              \
    "ldrd r1, lr, [r0, #0]\n"    \
    "smlad r11, r1, r4, r3\n"    \
    "smlad r12, lr, r5, r3\n"    \
    "smlabt r11, lr, r5, r11\n"  \
    "smlatb r12, r1, r4, r12\n"  \
    "ldrd r1, lr, [r0, #256]\n"  \
    "smlad r11, r1, r6, r11\n"   \
    "smlad r12, lr, r7, r12\n"   \
    "smlabt r11, lr, r7, r11\n"  \
    "smlatb r12, r1, r6, r12\n"  \
    "ldrd r1, lr, [r0, #512]\n"  \
    "smlad r11, r1, r8, r11\n"   \
    "smlad r12, lr, r9, r12\n"   \
    "smlabt r11, lr, r9, r11\n"  \
    "smlatb r12, r1, r8, r12\n"  \
    PAIR_OUTPUTS(fix, "4")
#define PAIR_2(fix)              \
    "ldrd r1, lr, [r0, #0]\n"    \
    "smlad r11, r1, r4, r3\n"    \
    "smlad r12, lr, r4, r3\n"    \
    "smlad r11, lr, r5, r11\n"   \
    "ldr r1, [r0, #8]\n"         \
    "smlad r12, r1, r5, r12\n"   \
    "ldrd r1, lr, [r0, #256]\n"  \
    "smlad r11, r1, r6, r11\n"   \
    "smlad r12, lr, r6, r12\n"   \
    "smlad r11, lr, r7, r11\n"   \
    "ldr r1, [r0, #264]\n"       \
    "smlad r12, r1, r7, r12\n"   \
    "ldrd r1, lr, [r0, #512]\n"  \
    "smlad r11, r1, r8, r11\n"   \
    "smlad r12, lr, r8, r12\n"   \
    "smlad r11, lr, r9, r11\n"   \
    "ldr r1, [r0, #520]\n"       \
    "smlad r12, r1, r9, r12\n"   \
    PAIR_OUTPUTS(fix, "8")

/* Pairs of rows, then the last row. Three rows are computed one by one: to run both loops takes longer than a pair saves. */
void tw_line_3_1_rows_3(const tw_line *line)
{
    const int32_t row_pairs = line->stride == 1 && line->rows != 3 ? line->rows / 2 : 0, blocks = line->count / 2;
    if (row_pairs) {
        const tw_quads frame = {
            0, 0, line->zero, line->step, line->down, NULL, 0, 0, line->count & 1, 4 * (2 * TW_LINE_ROW_WORDS - blocks),
            2 * (line->down - blocks * line->step), 4 * blocks, line->words, line->x, line->to, line->channels, row_pairs,
        };
        if (line->sign) {
            TW_RUN(QUADS(TW_FIX), &frame);
        } else {
            TW_RUN(QUADS(TW_NO_FIX), &frame);
        }
    }
    if (line->rows > 2 * row_pairs) {
        RUN_TWOS(line, 2 * row_pairs, PAIR_1, "smlabt", 4);
    }
}

TWOS_OF(tw_line_3_2_rows_3, PAIR_2, "smlad", 8)

#else

/* Computes a row of outputs of one channel at stride 2. */
static void plain_row(const tw_line *line, const uint32_t *words, const uint32_t *x, int8_t *to)
{
    const uint32_t *const end = words + 1 + line->taps * line->pairs;
    for (int32_t i = 0; i < line->count; ++i) {
        int32_t sum = tw_signed(words[0]);
        const uint32_t *from = x + i;
        for (const uint32_t *w = words + 1; w != end; w += line->pairs, from += TW_LINE_ROW_WORDS) {
            for (int32_t k = 0; k < line->pairs; ++k) {
                sum = tw_smlad(from[k], w[k], sum);
            }
        }
        to[i * line->step] = tw_rescale_doubled(sum, tw_signed(end[0]), tw_signed(end[1]), line->zero, line->sign);
    }
}

/* A tw_line_outputs for stride 2. */
static void plain(const tw_line *line)
{
    const uint32_t *words = line->words;
    EACH_ROW(line, words, plain_row(line, words, first, out);)
}

void tw_line_3_1(const tw_line *line) { tw_line_any_1(line); }
void tw_line_5_1(const tw_line *line) { tw_line_any_1(line); }
void tw_line_7_1(const tw_line *line) { tw_line_any_1(line); }
void tw_line_3_2(const tw_line *line) { plain(line); }
void tw_line_5_2(const tw_line *line) { plain(line); }
void tw_line_7_2(const tw_line *line) { plain(line); }
void tw_line_3_1_rows_3(const tw_line *line) { tw_line_any_1(line); }
void tw_line_3_2_rows_3(const tw_line *line) { plain(line); }

#endif
