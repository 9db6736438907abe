/* tw_line.c - lines of columns, two to a word, with the Arm DSP extension. */
#include "tw_line.h"

#include <stddef.h>

#include "tw_dsp.h"
#include "tw_line_rows.h"

/* Two columns of four channels as a word of each of four lines. */
static inline void put(uint32_t *to, uint32_t first, uint32_t second)
{
    const uint32_t low = tw_pkhbt(first, second), high = tw_pkhtb(first, second);
    to[0] = tw_sxtb16(low);
    to[TW_LINE_WORDS] = tw_sxtb16_odd(low);
    to[2 * TW_LINE_WORDS] = tw_sxtb16(high);
    to[3 * TW_LINE_WORDS] = tw_sxtb16_odd(high);
}

int32_t tw_columns_set(tw_columns *columns, int32_t left, int32_t words, int32_t end)
{
    columns->before = tw_min(tw_max(-left, 0) / 2, words);
    columns->first = left < 0 && (left & 1) && columns->before < words && end > 0;
    const int32_t filled = columns->before + columns->first, inside = left + 2 * filled;
    columns->pairs = tw_clamp((end - inside) / 2, 0, words - filled);
    const int32_t full = filled + columns->pairs;
    columns->last = full < words && inside + 2 * columns->pairs < end;
    columns->after = words - full - columns->last;
    return tw_max(left, 0);
}

#if TW_HAS_DSP

/* Four columns of four channels as two words of each of four lines; moves on in both. */
#define STORE_TWO(first, second, rotated, at) \
    "sxtb16 %[b], " first rotated "\nsxtb16 %[d], " second rotated "\nstrd %[b], %[d], [%[word]" at "\n"
#define PUT_TWO(to, from, step)                                                                        \
    do {                                                                                               \
        uint32_t a, b, c, d;                                                                           \
        __asm__ volatile(                                                                              \
            "ldr %[b], [%[in], %[by]]\n"                                                               \
            "ldr %[a], [%[in]]\n"                                                                      \
            "add %[in], %[in], %[by], lsl #1\n"                                                        \
            "ldr %[d], [%[in], %[by]]\n"                                                               \
            "ldr %[c], [%[in]]\n"                                                                      \
            "add %[in], %[in], %[by], lsl #1\n"                                                        \
            "pkhtb r12, %[b], %[a], asr #16\n"                                                         \
            "pkhtb lr, %[d], %[c], asr #16\n"                                                          \
            "pkhbt %[a], %[a], %[b], lsl #16\n"                                                        \
            "pkhbt %[c], %[c], %[d], lsl #16\n"                                                        \
            STORE_TWO("r12", "lr", "", ", #128]")                                                      \
            STORE_TWO("r12", "lr", ", ror #8", ", #192]")                                              \
            STORE_TWO("%[a]", "%[c]", ", ror #8", ", #64]")                                            \
            STORE_TWO("%[a]", "%[c]", "", "], #8")                                                     \
            : [word] "+r"(to), [in] "+r"(from), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d) \
            : [by] "r"(step)                                                                           \
            : "r12", "lr", "memory");                                                                  \
    } while (0)

#else

#define PUT_TWO(to, from, step)                                          \
    do {                                                                 \
        for (int32_t half = 0; half < 2; ++half) {                       \
            put((to)++, tw_word(from), tw_word((from) + (step)));        \
            (from) += 2 * (step);                                        \
        }                                                                \
    } while (0)

#endif

void tw_line_fill(const tw_columns *columns, uint32_t *to, const int8_t *data, int32_t offset)
{
    const uint32_t padding = columns->padding;
    const int32_t step = columns->step;
    to += columns->before;
    for (int32_t row = columns->rows; row > 0; --row) {
        const int8_t *from = data + offset;
        uint32_t *word = to;
        if (columns->first) {
            put(word++, padding, tw_word(from));
            from += step;
        }
        for (int32_t i = columns->pairs >> 1; i > 0; --i) {
            PUT_TWO(word, from, step);
        }
        if (columns->pairs & 1) {
            put(word++, tw_word(from), tw_word(from + step));
            from += 2 * step;
        }
        if (columns->last) {
            put(word, tw_word(from), padding);
        }
        to += TW_LINE_ROW_WORDS;
        offset = tw_down(offset, columns->down, columns->ring);
    }
}

void tw_line_pad(const tw_columns *columns, uint32_t *to, int whole)
{
    const int32_t inside = columns->before + columns->first + columns->pairs + columns->last, words = inside + columns->after;
    for (int32_t i = 0; i < words; ++i) {
        if (whole || i < columns->before || i >= inside) {
            put(to + i, columns->padding, columns->padding);
        }
    }
}

/* Runs ROW for each channel and row of a line: the inputs begin at `first`, the outputs at `out`. */
#define EACH_ROW(line, words, ROW)                                                                             \
    for (int32_t plane = 0; plane < (line)->channels; ++plane) {                                               \
        for (int32_t y = 0; y < (line)->rows; ++y) {                                                           \
            const uint32_t *first = (line)->x + plane * TW_LINE_WORDS + y * (line)->stride * TW_LINE_ROW_WORDS; \
            int8_t *out = (line)->to + plane + y * (line)->down;                                               \
            ROW                                                                                                \
        }                                                                                                      \
        words += (line)->taps * (line)->pairs + 3;                                                             \
    }

/* Writes the first `left` of four sums, or all; words: multiplier and power. */
static inline int8_t *finish(const tw_line *line, const uint32_t *words, int8_t *to, int32_t left, const int32_t *sums)
{
    for (int32_t i = 0; i < tw_min(left, 4); ++i) {
        *to = tw_rescale_doubled(sums[i], tw_signed(words[0]), tw_signed(words[1]), line->zero, line->sign);
        to += line->step;
    }
    return to;
}

/* Stride 1, any width: what the word x[i] adds to two sums as the first, a middle and the last of their words. */
#define FIRST(i, even, odd)                    \
    even = tw_smlad(x[i], w[0], even);         \
    odd = tw_smlatb(x[i], w[0], odd);
#define MIDDLE(i, even, odd, k)                \
    odd = tw_smlad(x[i], w[k], odd);           \
    even = tw_smlad(x[i], w[(k) + 1], even);
#define LAST(i, even, odd, k)                  \
    odd = tw_smlad(x[i], w[k], odd);           \
    even = tw_smlabt(x[i], w[k], even);

/* A row of outputs of one channel, four at a time. */
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

/* Four sums at a time, any rows of the kernel. r0: line, r1: words, r8 .. r11: sums, the others: inputs and weights, of which the
 * first row of a kernel is entered late enough. On the stack lies `kept` and what follows it: a tw_fours, turned round. */
typedef struct {
    int32_t zero;
    int32_t last_1, last_2, last_3;  /* where the outputs after the first one go, of the last four; those too many, where others do */
    const uint32_t *end;             /* where the line of the last four ends */
    const uint32_t *words;           /* from here on the order in which the assembly reads */
    int8_t *to;
    int32_t at_1, at_2, at_3, on;    /* from an output to those after it; to the next four */
    int32_t back;                    /* bytes from behind the kernel's last row to the first row, next four */
    const uint32_t *whole;           /* where the line ends of fours that are all wanted */
    uint32_t skip;                   /* bytes of code */
    const uint32_t *x;
} tw_fours;

#define FINISH_FOUR(sum, fix) "smmulr " sum ", " sum ", r2\n" TW_OUTPUT(sum, fix, "r3", "r4")
#define FOURS(row, fix)                \
    "push {r4-r11}\n"                  \
    "ldm r0!, {r1-r5}\n"               \
    "push {r1-r5}\n"                   \
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
    "add sp, sp, #56\n"                \
    "pop {r4-r11}\n"

/* A row of the kernel; of all instructions the size is given. */
#define MAC(sum, x, w) "smlad " sum ", " x ", " w ", " sum "\n"
#define LOW(sum, x, w) "smlabt " sum ", " x ", " w ", " sum "\n"  /* the last weight, of which the even sums are without a pair */
#define HIGH(sum, x, w) "smlatb " sum ", " x ", " w ", " sum "\n" /* the first weight, of which the odd ones are */
#define S0 "r8"
#define S1 "r9"
#define S2 "r10"
#define S3 "r11"

#define FOURS_3_1                                                                     \
    "ldrd r2, r3, [r1], #8\n"                                                         \
    "ldr.w r6, [r0, #8]\n"                                                            \
    "ldrd r4, r5, [r0], #256\n"                                                       \
    MAC(S0, "r4", "r2") HIGH(S1, "r4", "r2")                                          \
    LOW(S0, "r5", "r3") MAC(S1, "r5", "r3") MAC(S2, "r5", "r2") HIGH(S3, "r5", "r2")  \
    LOW(S2, "r6", "r3") MAC(S3, "r6", "r3")
#define FOURS_5_1                                                                     \
    "ldm.w r1!, {r2-r5}\n"                                                            \
    "ldrd r12, lr, [r0, #8]\n"                                                        \
    "ldrd r6, r7, [r0], #256\n"                                                       \
    MAC(S0, "r6", "r2") HIGH(S1, "r6", "r2")                                          \
    MAC(S0, "r7", "r4") MAC(S1, "r7", "r3") MAC(S2, "r7", "r2") HIGH(S3, "r7", "r2")  \
    LOW(S0, "r12", "r5") MAC(S1, "r12", "r5") MAC(S2, "r12", "r4") MAC(S3, "r12", "r3") \
    LOW(S2, "lr", "r5") MAC(S3, "lr", "r5")
#define FOURS_7_1                                                                     \
    "ldm.w r1!, {r2-r7}\n"                                                            \
    "ldrd r12, lr, [r0, #8]\n"                                                        \
    MAC(S0, "r12", "r6") MAC(S1, "r12", "r5") MAC(S2, "r12", "r4") MAC(S3, "r12", "r3") \
    LOW(S0, "lr", "r7") MAC(S1, "lr", "r7") MAC(S2, "lr", "r6") MAC(S3, "lr", "r5")   \
    "ldr.w r12, [r0, #16]\n"                                                          \
    LOW(S2, "r12", "r7") MAC(S3, "r12", "r7")                                         \
    "ldrd r12, lr, [r0], #256\n"                                                      \
    MAC(S0, "r12", "r2") HIGH(S1, "r12", "r2")                                        \
    MAC(S0, "lr", "r4") MAC(S1, "lr", "r3") MAC(S2, "lr", "r2") HIGH(S3, "lr", "r2")

/* Stride 2: word k of the weights meets word i + k. */
#define FOURS_3_2                                                                     \
    "ldrd r2, r3, [r1], #8\n"                                                         \
    "ldr.w r4, [r0, #16]\n"                                                           \
    "ldrd r12, lr, [r0, #8]\n"                                                        \
    "ldrd r6, r7, [r0], #256\n"                                                       \
    MAC(S0, "r6", "r2") MAC(S0, "r7", "r3") MAC(S1, "r7", "r2") MAC(S1, "r12", "r3")  \
    MAC(S2, "r12", "r2") MAC(S2, "lr", "r3") MAC(S3, "lr", "r2") MAC(S3, "r4", "r3")
#define FOURS_5_2                                                                     \
    "ldm.w r1!, {r2-r4}\n"                                                            \
    "ldrd r12, lr, [r0, #16]\n"                                                       \
    MAC(S2, "r12", "r4") MAC(S3, "r12", "r3") MAC(S3, "lr", "r4")                     \
    "ldrd r12, lr, [r0, #8]\n"                                                        \
    MAC(S0, "r12", "r4") MAC(S1, "r12", "r3") MAC(S2, "r12", "r2")                    \
    MAC(S1, "lr", "r4") MAC(S2, "lr", "r3") MAC(S3, "lr", "r2")                       \
    "ldrd r12, lr, [r0], #256\n"                                                      \
    MAC(S0, "r12", "r2") MAC(S0, "lr", "r3") MAC(S1, "lr", "r2")
#define FOURS_7_2                                                                     \
    "ldm.w r1!, {r2-r5}\n"                                                            \
    "ldr.w r12, [r0, #24]\n"                                                          \
    MAC(S3, "r12", "r5")                                                              \
    "ldrd r12, lr, [r0, #16]\n"                                                       \
    MAC(S1, "r12", "r5") MAC(S2, "r12", "r4") MAC(S3, "r12", "r3")                    \
    MAC(S2, "lr", "r5") MAC(S3, "lr", "r4")                                           \
    "ldrd r12, lr, [r0, #8]\n"                                                        \
    MAC(S0, "r12", "r4") MAC(S1, "r12", "r3") MAC(S2, "r12", "r2")                    \
    MAC(S0, "lr", "r5") MAC(S1, "lr", "r4") MAC(S2, "lr", "r3") MAC(S3, "lr", "r2")   \
    "ldrd r12, lr, [r0], #256\n"                                                      \
    MAC(S0, "r12", "r2") MAC(S0, "lr", "r3") MAC(S1, "lr", "r2")

/* What is the same for all rows; advance: words of a line for four sums; size: bytes of a kernel row's code. */
static tw_fours fours_of(const tw_line *line, int32_t advance, uint32_t size)
{
    const int32_t step = line->step, rest = line->count & 3;
    tw_fours frame;
    frame.words = line->words;
    frame.zero = line->zero;
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

/* Runs the code on each row of a line, which needs `advance` words for four sums. */
#define RUN_ROWS(line, frame, advance, code)                                                                     \
    EACH_ROW(line, (frame).words, (frame).x = first; (frame).to = out;                                           \
             (frame).whole = first + (line)->count / 4 * (advance);                                              \
             (frame).end = first + ((line)->count + 3) / 4 * (advance); TW_RUN(code, &(frame));)
#define FOURS_OF(name, row, advance, instructions)                               \
    void name(const tw_line *line)                                               \
    {                                                                            \
        tw_fours frame = fours_of(line, advance, 4 * (instructions));            \
        if (line->sign) {                                                        \
            RUN_ROWS(line, frame, advance, FOURS(row, TW_FIX))                   \
        } else {                                                                 \
            RUN_ROWS(line, frame, advance, FOURS(row, TW_NO_FIX))                \
        }                                                                        \
    }

FOURS_OF(tw_line_3_1, FOURS_3_1, 2, 11)
FOURS_OF(tw_line_5_1, FOURS_5_1, 2, 15)
FOURS_OF(tw_line_7_1, FOURS_7_1, 2, 20)
FOURS_OF(tw_line_3_2, FOURS_3_2, 4, 12)
FOURS_OF(tw_line_5_2, FOURS_5_2, 4, 16)
FOURS_OF(tw_line_7_2, FOURS_7_2, 4, 21)

#define TWOS_1(at, next, w01, w12, first_0, first_1) \
    "ldrd r1, lr, [r0, #" at "]\n"                   \
    "smlad r11, r1, " w01 ", " first_0 "\n"          \
    "smlad r12, lr, " w12 ", " first_1 "\n"          \
    "smlabt r11, lr, " w12 ", r11\n"                 \
    "smlatb r12, r1, " w01 ", r12\n"
#define TWOS_2(at, next, w01, w2, first_0, first_1)  \
    "ldrd r1, lr, [r0, #" at "]\n"                   \
    "smlad r11, r1, " w01 ", " first_0 "\n"          \
    "smlad r12, lr, " w01 ", " first_1 "\n"          \
    "smlad r11, lr, " w2 ", r11\n"                   \
    "ldr r1, [r0, #" next "]\n"                      \
    "smlad r12, r1, " w2 ", r12\n"
#define TWOS_PAIR(row, advance, fix)                 \
    row("0", "8", "r4", "r5", "r3", "r3")            \
    row("256", "264", "r6", "r7", "r11", "r12")      \
    row("512", "520", "r8", "r9", "r11", "r12")      \
    "ldrd r1, lr, [sp]\n"                            \
    "smmulr r11, r11, r10\n"                         \
    "smmulr r12, r12, r10\n"                         \
    fix("r11") fix("r12")                            \
    "smmlar r11, r11, r1, lr\n"                      \
    "smmlar r12, r12, r1, lr\n"                      \
    "ldrd r1, lr, [sp, #8]\n"                        \
    "ssat r11, #8, r11\n"                            \
    "ssat r12, #8, r12\n"                            \
    "add r0, r0, #" advance "\n"                     \
    "strb r12, [r2, r1]\n"                           \
    "strb r11, [r2]\n"                               \
    "add r2, r2, r1, lsl #1\n"
#define PAIR_1(fix) TWOS_PAIR(TWOS_1, "4", fix)
#define PAIR_2(fix) TWOS_PAIR(TWOS_2, "8", fix)

TWOS_OF(tw_line_3_1_rows_3, PAIR_1, "smlabt", 4)
TWOS_OF(tw_line_3_2_rows_3, PAIR_2, "smlad", 8)

#else

/* A row of outputs of one channel with stride 2. */
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
