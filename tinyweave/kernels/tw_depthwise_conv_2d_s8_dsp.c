/* tw_depthwise_conv_2d_s8_dsp.c - int8 depthwise convolution with the Arm DSP extension. */
#include "tw_depthwise_conv_2d_s8_dsp.h"

#include "tw_dsp.h"

#define PLANES 4
#define ROW_WORDS (PLANES * TW_LINE_WORDS)

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
        for (int32_t plane = 0; plane < PLANES; ++plane) {                                       \
            const uint32_t *from = line->x + plane * TW_LINE_WORDS;                              \
            const uint32_t *const end = words + line->rows * (PAIRS);                            \
            int8_t *to = line->to + plane;                                                       \
            for (int32_t left = line->count; left > 0; left -= 4) {                              \
                const uint32_t *x = from;                                                        \
                int32_t sum0 = tw_signed(*end), sum1 = sum0, sum2 = sum0, sum3 = sum0;           \
                for (const uint32_t *w = words; w != end; w += (PAIRS)) {                        \
                    TAPS                                                                         \
                    x += ROW_WORDS;                                                              \
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

#define ROW(offset, w01, w12, first_0, first_1)  \
    "ldrd r1, lr, [r0, #" offset "]\n"           \
    "smlad r11, r1, " w01 ", " first_0 "\n"      \
    "smlad r12, lr, " w12 ", " first_1 "\n"      \
    "smlabt r11, lr, " w12 ", r11\n"             \
    "smlatb r12, r1, " w01 ", r12\n"
#define NO_FIX
#define FIX "add r11, r11, r11, asr #31\nadd r12, r12, r12, asr #31\n"
#define SUMS(fix)                          \
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
    ROW("0", "r3", "r4", "r9", "r9")       \
    ROW("256", "r5", "r6", "r11", "r12")   \
    ROW("512", "r7", "r8", "r11", "r12")   \
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
    "add r0, r0, #4\n"                     \
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

void tw_line_3_1_rows_3(const tw_line *line)
{
    const int32_t pairs = line->count / 2, odd = line->count & 1;
    const tw_frame filled = {0, line->zero, 0, line->x + pairs, line->x + pairs + odd, line->step, line->x, line->to,
                             line->words, PLANES};
    register const tw_frame *frame __asm__("r0") = &filled;
    if (pairs == 0) { /* the assembly begins with a pair of which both are wanted */
        tw_line_3_1(line);
    } else if (line->sign) {
        __asm__ volatile(SUMS(FIX) : "+r"(frame) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory");
    } else {
        __asm__ volatile(SUMS(NO_FIX) : "+r"(frame) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory");
    }
}

#else

void tw_line_3_1_rows_3(const tw_line *line) { tw_line_3_1(line); }

#endif

/* Two columns of four channels as a word of each of four lines. */
static inline void put(uint32_t *to, uint32_t first, uint32_t second)
{
    const uint32_t low = tw_pkhbt(first, second), high = tw_pkhtb(first, second);
    to[0] = tw_sxtb16(low);
    to[TW_LINE_WORDS] = tw_sxtb16_odd(low);
    to[2 * TW_LINE_WORDS] = tw_sxtb16(high);
    to[3 * TW_LINE_WORDS] = tw_sxtb16_odd(high);
}

/* Widens `words` pairs of columns of a row, of which those outside of [0, p->in.w) hold `padding`; from: column 0. */
static void widen(const tw_conv *p, uint32_t *to, const int8_t *from, int32_t left, int32_t words, uint32_t padding)
{
    const int32_t w = p->in.w, c = p->in.c;
    uint32_t *const end = to + words;
    int32_t col = left;
    for (; to != end && col < 0; col += 2) {
        put(to++, padding, col == -1 ? tw_word(from) : padding);
    }
    const int8_t *x = from + col * c;
    int32_t pairs = tw_max(tw_min((int32_t)(end - to), (w - col) >> 1), 0);
    col += 2 * pairs;
    for (; pairs >= 2; pairs -= 2) {
        const uint32_t first = tw_word(x), second = tw_word(x + c), third = tw_word(x + 2 * c), fourth = tw_word(x + 3 * c);
        put(to, first, second);
        put(to + 1, third, fourth);
        to += 2;
        x += 4 * c;
    }
    if (pairs) {
        put(to++, tw_word(x), tw_word(x + c));
    }
    for (; to != end; col += 2) {
        put(to++, col < w ? tw_word(from + col * c) : padding, padding);
    }
}

void tw_depthwise_conv_2d_s8_dsp_part(const tw_depthwise_dsp *params, tw_view in, tw_view out, tw_range range, void *scratch)
{
    const tw_conv *p = &params->base.conv;
    const int32_t channels = p->in.c, top = p->kernel.h * ROW_WORDS;
    const int32_t per_row = p->stride.w == 1 ? p->kernel.w - 1 : p->kernel.w / 2 + 1, per_channel = per_row * p->kernel.h + 3;
    const int clamps = p->out_min != -128 || p->out_max != 127;
    const uint32_t padding = ((uint32_t)p->in_zero & 0xFFu) * 0x01010101u;
    uint32_t *const lines = (uint32_t *)scratch;
    tw_line line;
    line.x = lines;
    line.step = channels;
    line.rows = p->kernel.h;
    line.zero = p->out_zero;
    line.sign = params->base.sign;

    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        int8_t *const row = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        const tw_window window = tw_window_rows(p, &in, y);
        const int32_t above = window.row_tap / p->kernel.w;
        for (int32_t x = range.col_begin; x < range.col_end; x += params->block) {
            const int32_t left = x * p->stride.w - p->pad.w;
            line.count = tw_min(params->block, range.col_end - x);
            /* what four sums at a time read */
            const int32_t words = ((((line.count + 3) & ~3) - 1) * p->stride.w + p->kernel.w + 1) >> 1;
            int8_t *const block = row + (x - range.col_begin) * channels;
            for (int32_t begin = 0; begin < channels; begin += PLANES) {
                const int32_t channel = tw_min(begin, channels - PLANES);
                int32_t offset = window.row_offset + channel;
                for (int32_t at = 0, tap = 0; at < top; at += ROW_WORDS, ++tap) {
                    if (tap < above || tap >= above + window.rows) {
                        for (int32_t i = 0; i < words; ++i) {
                            put(lines + at + i, padding, padding);
                        }
                    } else {
                        widen(p, lines + at, (const int8_t *)in.data + offset, left, words, padding);
                        offset = tw_down(offset, window.step, window.ring);
                    }
                }
                line.words = params->base.stream + channel * per_channel;
                line.to = block + channel;
                params->line(&line);
            }
            if (clamps) {
                tw_conv_clamp(p, block, line.count * channels);
            }
        }
    }
}

void tw_depthwise_conv_2d_s8_dsp(const tw_depthwise_dsp *p, const void *in, void *out, void *scratch)
{
    const tw_conv *conv = &p->base.conv;
    tw_depthwise_conv_2d_s8_dsp_part(p, tw_whole(in, conv->in), tw_whole(out, conv->out), tw_all(conv->out), scratch);
}
