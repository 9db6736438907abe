/* tw_line.c - lines of columns, two to a word, with the Arm DSP extension. */
#include "tw_line.h"

#include "tw_dsp.h"

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

void tw_line_fill(const tw_columns *columns, uint32_t *to, const int8_t *from)
{
    const uint32_t padding = columns->padding;
    const int32_t step = columns->step;
    for (int32_t i = columns->before; i > 0; --i) {
        put(to++, padding, padding);
    }
    if (columns->first) {
        put(to++, padding, tw_word(from));
        from += step;
    }
    for (int32_t i = columns->pairs >> 1; i > 0; --i) {
        const uint32_t first = tw_word(from), second = tw_word(from + step);
        from += 2 * step;
        const uint32_t third = tw_word(from), fourth = tw_word(from + step);
        from += 2 * step;
        put(to, first, second);
        put(to + 1, third, fourth);
        to += 2;
    }
    if (columns->pairs & 1) {
        put(to++, tw_word(from), tw_word(from + step));
        from += 2 * step;
    }
    if (columns->last) {
        put(to++, tw_word(from), padding);
    }
    for (int32_t i = columns->after; i > 0; --i) {
        put(to++, padding, padding);
    }
}

void tw_line_pad(const tw_columns *columns, uint32_t *to)
{
    const int32_t words = columns->before + columns->first + columns->pairs + columns->last + columns->after;
    for (int32_t i = 0; i < words; ++i) {
        put(to + i, columns->padding, columns->padding);
    }
}

/* The outputs of four sums, or of the first `left` of them; words: multiplier and power. */
static inline int8_t *finish(const tw_line *line, const uint32_t *words, int8_t *to, int32_t left, const int32_t *sums)
{
    const int32_t multiplier = tw_signed(words[0]), power = tw_signed(words[1]);
    const int32_t zero = line->zero, sign = line->sign, step = line->step;
    if (left >= 4) {
        to[0] = tw_rescale_doubled(sums[0], multiplier, power, zero, sign);
        to[step] = tw_rescale_doubled(sums[1], multiplier, power, zero, sign);
        to += 2 * step;
        to[0] = tw_rescale_doubled(sums[2], multiplier, power, zero, sign);
        to[step] = tw_rescale_doubled(sums[3], multiplier, power, zero, sign);
        return to + 2 * step;
    }
    for (int32_t i = 0; i < left; ++i) {
        *to = tw_rescale_doubled(sums[i], multiplier, power, zero, sign);
        to += step;
    }
    return to;
}

/* Four sums at a time over the rows of the kernel; TAPS adds those of one row, whose pairs of weights are PAIRS words. */
#define LINE(name, PAIRS, ADVANCE, TAPS)                                                         \
    void name(const tw_line *line)                                                               \
    {                                                                                            \
        const uint32_t *words = line->words;                                                     \
        for (int32_t plane = 0; plane < TW_LINE_CHANNELS; ++plane) {                                       \
            const uint32_t *from = line->x + plane * TW_LINE_WORDS;                              \
            const uint32_t *const end = words + line->rows * (PAIRS);                            \
            int8_t *to = line->to + plane;                                                       \
            for (int32_t left = line->count; left > 0; left -= 4) {                              \
                const uint32_t *x = from;                                                        \
                int32_t sum0 = tw_signed(*end), sum1 = sum0, sum2 = sum0, sum3 = sum0;           \
                for (const uint32_t *w = words; w != end; w += (PAIRS)) {                        \
                    TAPS                                                                         \
                    x += TW_LINE_ROW_WORDS;                                                              \
                }                                                                                \
                const int32_t sums[4] = {sum0, sum1, sum2, sum3};                                \
                to = finish(line, end + 1, to, left, sums);                                      \
                from += (ADVANCE);                                                               \
            }                                                                                    \
            words = end + 3;                                                                     \
        }                                                                                        \
    }

/* Stride 1: what the word x[i] adds to two sums as the first, a middle and the last of their words. */
#define FIRST(i, even, odd)                    \
    even = tw_smlad(x[i], w[0], even);         \
    odd = tw_smlatb(x[i], w[0], odd);
#define MIDDLE(i, even, odd, k)                \
    odd = tw_smlad(x[i], w[k], odd);           \
    even = tw_smlad(x[i], w[(k) + 1], even);
#define LAST(i, even, odd, k)                  \
    odd = tw_smlad(x[i], w[k], odd);           \
    even = tw_smlabt(x[i], w[k], even);

/* All words of a kernel of any width, the sums of two words of inputs at a time. */
#define ANY                                                                     \
    FIRST(0, sum0, sum1)                                                        \
    FIRST(1, sum2, sum3)                                                        \
    for (int32_t i = 1, k = 1; k + 1 < line->pairs; ++i, k += 2) {              \
        MIDDLE(i, sum0, sum1, k)                                                \
        MIDDLE(i + 1, sum2, sum3, k)                                            \
    }                                                                           \
    LAST(line->pairs / 2, sum0, sum1, line->pairs - 1)                          \
    LAST(line->pairs / 2 + 1, sum2, sum3, line->pairs - 1)

LINE(tw_line_any_1, line->pairs, 2, ANY)
LINE(tw_line_3_1, 2, 2, FIRST(0, sum0, sum1) LAST(1, sum0, sum1, 1) FIRST(1, sum2, sum3) LAST(2, sum2, sum3, 1))
LINE(tw_line_5_1, 4, 2,
     FIRST(0, sum0, sum1) MIDDLE(1, sum0, sum1, 1) FIRST(1, sum2, sum3)
     LAST(2, sum0, sum1, 3) MIDDLE(2, sum2, sum3, 1) LAST(3, sum2, sum3, 3))
LINE(tw_line_7_1, 6, 2,
     FIRST(0, sum0, sum1) MIDDLE(1, sum0, sum1, 1) FIRST(1, sum2, sum3)
     MIDDLE(2, sum0, sum1, 3) MIDDLE(2, sum2, sum3, 1)
     LAST(3, sum0, sum1, 5) MIDDLE(3, sum2, sum3, 3) LAST(4, sum2, sum3, 5))

/* Stride 2: word k of the weights meets word i + k. */
#define ALL(k)                                 \
    sum0 = tw_smlad(x[k], w[k], sum0);         \
    sum1 = tw_smlad(x[(k) + 1], w[k], sum1);   \
    sum2 = tw_smlad(x[(k) + 2], w[k], sum2);   \
    sum3 = tw_smlad(x[(k) + 3], w[k], sum3);

LINE(tw_line_3_2, 2, 4, ALL(0) ALL(1))
LINE(tw_line_5_2, 3, 4, ALL(0) ALL(1) ALL(2))
LINE(tw_line_7_2, 4, 4, ALL(0) ALL(1) ALL(2) ALL(3))

#if TW_HAS_DSP

/* Two sums at a time, all weights in registers; r0: line, r2: output, r3 .. r8: weights, r9: bias, r10: multiplier,
 * r11, r12: sums, r1, lr: inputs. The stack holds tw_frame. */
typedef struct {
    int32_t power, zero, step;
    const uint32_t *whole, *end;  /* where the pairs of sums end of which both are wanted, and all */
    int32_t whole_step;
    const uint32_t *x;
    int8_t *to;
    const uint32_t *words;
    int32_t planes;
} tw_frame;

#define ROW_1(at, next, w01, w12, first_0, first_1)  \
    "ldrd r1, lr, [r0, #" at "]\n"                   \
    "smlad r11, r1, " w01 ", " first_0 "\n"          \
    "smlad r12, lr, " w12 ", " first_1 "\n"          \
    "smlabt r11, lr, " w12 ", r11\n"                 \
    "smlatb r12, r1, " w01 ", r12\n"
#define ROW_2(at, next, w01, w2, first_0, first_1)   \
    "ldrd r1, lr, [r0, #" at "]\n"                   \
    "smlad r11, r1, " w01 ", " first_0 "\n"          \
    "smlad r12, lr, " w01 ", " first_1 "\n"          \
    "smlad r11, lr, " w2 ", r11\n"                   \
    "ldr r1, [r0, #" next "]\n"                      \
    "smlad r12, r1, " w2 ", r12\n"
#define NO_FIX
#define FIX "add r11, r11, r11, asr #31\nadd r12, r12, r12, asr #31\n"
#define SUMS(row, advance, fix)            \
    "push {r4-r11}\n"                      \
    "ldm r0, {r1-r10}\n"                   \
    "push {r1-r10}\n"                      \
    "1:\n"                                 \
    "ldr r1, [sp, #32]\n"                  \
    "ldm r1!, {r3-r10}\n"                  \
    "ldr r11, [r1], #4\n"                  \
    "str r1, [sp, #32]\n"                  \
    "str r11, [sp]\n"                      \
    "ldrd r12, r0, [sp, #20]\n"            \
    "ldr r2, [sp, #28]\n"                  \
    "str r12, [sp, #8]\n"                  \
    "2:\n"                                 \
    row("0", "8", "r3", "r4", "r9", "r9")             \
    row("256", "264", "r5", "r6", "r11", "r12")       \
    row("512", "520", "r7", "r8", "r11", "r12")       \
    "ldrd r1, lr, [sp]\n"                  \
    "smmulr r11, r11, r10\n"               \
    "smmulr r12, r12, r10\n"               \
    fix                                    \
    "smmlar r11, r11, r1, lr\n"            \
    "smmlar r12, r12, r1, lr\n"            \
    "ldrd r1, lr, [sp, #8]\n"              \
    "ssat r11, #8, r11\n"                  \
    "ssat r12, #8, r12\n"                  \
    "strb r12, [r2, r1]\n"                 \
    "strb r11, [r2]\n"                     \
    "add r0, r0, #" advance "\n"           \
    "add r2, r2, r1, lsl #1\n"             \
    "cmp r0, lr\n"                         \
    "blo.w 2b\n"                           \
    "ldr r1, [sp, #16]\n"                  \
    "cmp r0, r1\n"                         \
    "beq 3f\n"                             \
    "mov r1, #0\n"                         \
    "str r1, [sp, #8]\n"                   \
    "b.w 2b\n"                             \
    "3:\n"                                 \
    "ldrd r3, r4, [sp, #12]\n"             \
    "ldrd r5, r6, [sp, #24]\n"             \
    "add r3, r3, #64\n"                    \
    "add r4, r4, #64\n"                    \
    "add r5, r5, #64\n"                    \
    "add r6, r6, #1\n"                     \
    "ldr r7, [sp, #36]\n"                  \
    "strd r3, r4, [sp, #12]\n"             \
    "strd r5, r6, [sp, #24]\n"             \
    "subs r7, r7, #1\n"                    \
    "str r7, [sp, #36]\n"                  \
    "bne.w 1b\n"                           \
    "add sp, sp, #40\n"                    \
    "pop {r4-r11}\n"

/* `words` of inputs lead from a pair of sums to the next; the assembly begins with a pair of which both are wanted. */
static tw_frame frame_of(const tw_line *line, int32_t words)
{
    const int32_t pairs = line->count / 2, odd = line->count & 1;
    const uint32_t *whole = line->x + pairs * words;
    const tw_frame frame = {0, line->zero, 0, whole, whole + odd * words, line->step, line->x, line->to, line->words,
                            TW_LINE_CHANNELS};
    return frame;
}

#define RUN(code, filled)                                                                                        \
    do {                                                                                                         \
        register const tw_frame *frame __asm__("r0") = &(filled);                                                \
        __asm__ volatile(code : "+r"(frame) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory");                  \
    } while (0)

#define ROWS_3(name, any, words, row, advance)       \
    void name(const tw_line *line)                   \
    {                                                \
        const tw_frame filled = frame_of(line, words); \
        if (line->count < 2) {                       \
            any(line);                               \
        } else if (line->sign) {                     \
            RUN(SUMS(row, advance, FIX), filled);    \
        } else {                                     \
            RUN(SUMS(row, advance, NO_FIX), filled); \
        }                                            \
    }

ROWS_3(tw_line_3_1_rows_3, tw_line_3_1, 1, ROW_1, "4")
ROWS_3(tw_line_3_2_rows_3, tw_line_3_2, 2, ROW_2, "8")

#else

void tw_line_3_1_rows_3(const tw_line *line) { tw_line_3_1(line); }
void tw_line_3_2_rows_3(const tw_line *line) { tw_line_3_2(line); }

#endif
