/* tw_taps_loop.h - what the depthwise kernels without working memory are made of: four channels of two outputs of a row at a time,
 * or of one alone, tap by tap. To be included once by each of these kernels. */
#ifndef TW_TAPS_LOOP_H
#define TW_TAPS_LOOP_H

#include <stddef.h>

#include "tw_depthwise_lean_dsp.h"
#include "tw_dsp.h"

#if TW_HAS_DSP

/* All of r0 .. r12 and lr are needed, more than a compiler gives that keeps a frame pointer; so r4 .. r11 are saved here.
 * r0: what is added to the address of each tap, from channel to channel and from two outputs to the next two; r1: stream; r2, r3: a
 * tap's channels (0, 2) and (1, 3); r4 .. r7: sums of the first output, r8 .. r11: of the second; r12, lr: weights.
 * On the stack lie the addresses of all taps, those that only the second output has among them, then a tw_taps up to `sign`. */
#define SAVED "36" /* bytes of that part of a tw_taps; from its begin: */
#define TO "0"
#define LAST "8"
#define CHANNELS "12"
#define STREAM "20"
#define PAIRS "24"
#define ZERO "28"
#define AT(taps, member) "[sp, #4*" taps "+" member "]"

/* From the address of a row's first tap, in r3, those of so many, which are then put where r1 points; r5: bytes of a pixel. */
#define NEXT(from, to) "add " to ", " from ", r5\n"
#define PUT_3 NEXT("r3", "r4") NEXT("r4", "r6") "stm r1!, {r3, r4, r6}\n"
#define TO_R7 NEXT("r3", "r4") NEXT("r4", "r6") NEXT("r6", "r7")
#define PUT_4 TO_R7 "stm r1!, {r3, r4, r6, r7}\n"
#define PUT_5 TO_R7 NEXT("r7", "r8") "stm r1!, {r3, r4, r6-r8}\n"
#define TO_R9 TO_R7 NEXT("r7", "r8") NEXT("r8", "r9")
#define PUT_6 TO_R9 "stm r1!, {r3, r4, r6-r9}\n"
#define PUT_7 TO_R9 NEXT("r9", "r10") "stm r1!, {r3, r4, r6-r10}\n"
#define TO_R11 TO_R9 NEXT("r9", "r10") NEXT("r10", "r11")
#define PUT_8 TO_R11 "stm r1!, {r3, r4, r6-r11}\n"
#define PUT_9 TO_R11 NEXT("r11", "r12") "stm r1!, {r3, r4, r6-r12}\n"

/* The addresses of `columns` taps of each row. In a row that is partly outside: the padding's before `begin` (r4), as many as are
 * inside, then the padding's (r7) from `end` (r6) on. */
#define ADDRESSES(rows, columns, taps)    \
    "push {r4-r11}\n"                     \
    "sub sp, sp, #4*" taps "+" SAVED "\n" \
    "add r1, sp, #4*" taps "\n"           \
    "ldm r0!, {r2-r10}\n"                 \
    "stm r1, {r2-r10}\n"                  \
    "ldm r0!, {r4, r6, r7, r8}\n"         \
    "mov r1, sp\n"                        \
    "movs r2, #" rows "\n"                \
    "cmp r8, #0\n"                        \
    "beq.n 1f\n"                          \
    "7:\n"                                \
    "ldr r3, [r0], #4\n"                  \
    PUT_##columns                         \
    "subs r2, r2, #1\n"                   \
    "bne.n 7b\n"                          \
    "b.n 8f\n"                            \
    "1:\n"                                \
    "ldr r3, [r0], #4\n"                  \
    "cbz r3, 5f\n"                        \
    "movs r8, r4\n"                       \
    "beq.n 3f\n"                          \
    "2:\n"                                \
    "str r7, [r1], #4\n"                  \
    "subs r8, r8, #1\n"                   \
    "bne.n 2b\n"                          \
    "3:\n"                                \
    "sub r8, r6, r4\n"                    \
    "4:\n"                                \
    "str r3, [r1], #4\n"                  \
    "add r3, r3, r5\n"                    \
    "subs r8, r8, #1\n"                   \
    "bne.n 4b\n"                          \
    "rsbs r8, r6, #" #columns "\n"        \
    "bne.n 9f\n"                          \
    "b.n 6f\n"                            \
    "5:\n"                                \
    "movs r8, #" #columns "\n"            \
    "9:\n"                                \
    "str r7, [r1], #4\n"                  \
    "subs r8, r8, #1\n"                   \
    "bne.n 9b\n"                          \
    "6:\n"                                \
    "subs r2, r2, #1\n"                   \
    "bne.n 1b\n"                          \
    "8:\n"                                \
    "movs r0, #0\n"

/* `code` for each of the numbers: of `first`, the number of the address of a row's first tap, or of `column`. */
#define EACH(what, numbers, code) ".irp " what ", " numbers "\n" code ".endr\n"
#define TAP(column)                              \
    "ldr r3, [sp, #4*(\\first+" column ")]\n"    \
    "ldr r2, [r3, r0]\n"                         \
    "sxtb16 r3, r2, ror #8\n"                    \
    "sxtb16 r2, r2\n"
#define ALL_TAPS(columns, code) EACH("column", columns, TAP("\\column") code)
#define WEIGHTS "ldrd r12, lr, [r1], #8\n"
#define WEIGHTS_BEFORE(bytes) "ldrd r12, lr, [r1, #-" bytes "]\n"
#define FIRST_SUMS "smlabb r4, r2, r12, r4\nsmlatt r6, r2, r12, r6\nsmlabb r5, r3, lr, r5\nsmlatt r7, r3, lr, r7\n"
#define SECOND_SUMS "smlabb r8, r2, r12, r8\nsmlatt r10, r2, r12, r10\nsmlabb r9, r3, lr, r9\nsmlatt r11, r3, lr, r11\n"

#ifndef ROW_1 /* a core may have its own */

/* A row of the kernel: taps of the first output alone, of both, of the second. Stride 1: a tap is the second output's with the
 * weights of the tap before; stride 2: of the tap two before. */
#define ROW_1(both, last) TAP("0") WEIGHTS FIRST_SUMS ALL_TAPS(both, SECOND_SUMS WEIGHTS FIRST_SUMS) TAP(last) SECOND_SUMS
#define ROW_2(both, last_but_one, last)                                          \
    ALL_TAPS("0, 1", WEIGHTS FIRST_SUMS)                                         \
    ALL_TAPS(both, WEIGHTS_BEFORE("16") SECOND_SUMS WEIGHTS FIRST_SUMS)          \
    TAP(last_but_one) WEIGHTS_BEFORE("16") SECOND_SUMS                           \
    TAP(last) WEIGHTS_BEFORE("8") SECOND_SUMS

#endif

#define ROW_ALONE(columns) ALL_TAPS(columns, WEIGHTS FIRST_SUMS)

#define BYTES_TWO(a, b, fix)            \
    "ldrd r2, r3, [r1], #8\n"           \
    "smmulr " a ", " a ", r2\n"         \
    "smmulr " b ", " b ", r2\n"         \
    fix(a)                              \
    fix(b)                              \
    "smmlar " a ", " a ", r3, r12\n"    \
    "smmlar " b ", " b ", r3, r12\n"    \
    "ssat " a ", #8, " a "\n"           \
    "ssat " b ", #8, " b "\n"
#define BYTES_ONE(a, b, fix) "ldrd r2, r3, [r1], #8\nsmmulr " a ", " a ", r2\n" TW_OUTPUT(a, fix, "r3", "r12")
#define FOUR(bytes, fix) \
    bytes("r4", "r8", fix) bytes("r5", "r9", fix) bytes("r6", "r10", fix) bytes("r7", "r11", fix)
#define FOUR_ONE(fix) FOUR(BYTES_ONE, fix)
#ifndef FOUR_TWO /* a core may have its own */
#define FOUR_TWO(fix) FOUR(BYTES_TWO, fix)
#endif
#define PUT_FIRST "strb r5, [r2, #1]\nstrb r6, [r2, #2]\nstrb r7, [r2, #3]\nstrb r4, [r2], #4\n"
#define PUT_ONE PUT_FIRST
#define PUT_TWO PUT_FIRST "strb r9, [r3, #1]\nstrb r10, [r3, #2]\nstrb r11, [r3, #3]\nstrb r8, [r3], #4\n"
#define COPY_ONE
#define COPY_TWO TW_FOUR_MORE

/* count: ONE or TWO outputs; taps: how many addresses there are; products: the rows of the kernel. */
#define OUTPUTS(rows, columns, taps, count, products)                                 \
    ADDRESSES(rows, columns, taps)                                                    \
    "1:\n"                                                                            \
    "ldr r1, " AT(taps, STREAM) "\n"                                                  \
    "2:\n"                                                                            \
    "ldm r1!, {r4-r7}\n"                                                              \
    COPY_##count                                                                      \
    products                                                                          \
    "ldrd r12, lr, " AT(taps, ZERO) "\n"                                              \
    "cmp lr, #0\n"                                                                    \
    "bne.w 3f\n"                                                                      \
    FOUR_##count(TW_NO_FIX)                                                           \
    "4:\n"                                                                            \
    "ldrd r2, r3, " AT(taps, TO) "\n"                                                 \
    PUT_##count                                                                       \
    "strd r2, r3, " AT(taps, TO) "\n"                                                 \
    "ldr r4, " AT(taps, LAST) "\n"                                                    \
    "adds r0, #4\n"                                                                   \
    "cmp r0, r4\n"                                                                    \
    "ble.w 2b\n"                                                                      \
    "sub r5, r0, r4\n"                                                                \
    "cmp r5, #4\n"                                                                    \
    "beq.n 5f\n"                                                                      \
    "mov r0, r4\n" /* fewer than four channels are left: the last four, some of them once more */ \
    "subs r2, r2, r5\n"                                                               \
    "subs r3, r3, r5\n"                                                               \
    "strd r2, r3, " AT(taps, TO) "\n"                                                 \
    "b.w 2b\n"                                                                        \
    "5:\n"                                                                            \
    "ldr r6, " AT(taps, PAIRS) "\n"                                                   \
    "subs r6, #1\n"                                                                   \
    "beq.w 6f\n"                                                                      \
    "str r6, " AT(taps, PAIRS) "\n"                                                   \
    "ldrd r4, r5, " AT(taps, CHANNELS) "\n"                                           \
    "add r0, r5\n"                                                                    \
    "adds r2, r2, r4\n"                                                               \
    "adds r3, r3, r4\n"                                                               \
    "strd r2, r3, " AT(taps, TO) "\n"                                                 \
    "adds r4, r4, r0\n"                                                               \
    "subs r4, #4\n"                                                                   \
    "str r4, " AT(taps, LAST) "\n"                                                    \
    "b.w 1b\n"                                                                        \
    "3:\n"                                                                            \
    FOUR_##count(TW_FIX)                                                              \
    "b.w 4b\n"                                                                        \
    "6:\n"                                                                            \
    "add sp, sp, #4*" taps "+" SAVED "\n"                                             \
    "pop {r4-r11}\n"

/* One output, of a kernel that is `size` high and wide; firsts: the number of the first address of each row. */
#define TW_TAPS_ALONE(name, size, taps, firsts, row)                                  \
    static void name(const tw_taps *outputs)                                          \
    {                                                                                 \
        TW_RUN(OUTPUTS(#size, size, taps, ONE, EACH("first", firsts, row)), outputs); \
    }

/* A tw_taps_outputs: two outputs, `stride` apart, whose taps lie in `columns` columns, or what `alone` does. */
#define TW_TAPS_OUTPUTS(name, alone, size, stride, columns, taps, firsts, row)           \
    void name(const tw_taps *outputs)                                                    \
    {                                                                                    \
        if (outputs->to_0 == outputs->to_1) {                                            \
            alone(outputs);                                                              \
            return;                                                                      \
        }                                                                                \
        TW_RUN(OUTPUTS(#size, columns, taps, TWO, EACH("first", firsts, row)), outputs); \
    }

#else

/* Four channels of the output whose first tap is in column `col` of those that two outputs have. */
static void four(const tw_taps *taps, int32_t size, int32_t col, int32_t channel, const uint32_t *stream, int8_t *to)
{
    int32_t sums[4];
    TW_COPY(sums, stream, sizeof sums);
    stream += 4;
    for (int32_t row = 0; row < size; ++row) {
        const int8_t *const from = taps->rows[row];
        for (int32_t k = col; k < col + size; ++k, stream += 2) {
            const int32_t begin = taps->inside ? 0 : taps->begin;
            const int inside = taps->inside || (from && k >= begin && k < taps->end);
            const uint32_t x = tw_word((inside ? from + (k - begin) * taps->channels : taps->padding) + channel);
            for (int32_t i = 0; i < 4; ++i) {
                const int32_t at = tw_lane(i & 1 ? tw_sxtb16_odd(x) : tw_sxtb16(x), i >> 1);
                sums[i] = tw_signed((uint32_t)sums[i] + (uint32_t)(at * tw_lane(stream[i & 1], i >> 1)));
            }
        }
    }
    for (int32_t i = 0; i < 4; ++i) {
        to[i] = tw_rescale_doubled(sums[i], tw_signed(stream[2 * i]), tw_signed(stream[2 * i + 1]), taps->zero, taps->sign);
    }
}

static void plain(const tw_taps *given, int32_t size, int32_t stride)
{
    tw_taps taps = *given;
    const int32_t words = 12 + 2 * size * size;
    for (; taps.pairs > 0; --taps.pairs) {
        const uint32_t *stream = taps.stream;
        for (int32_t begin = 0; begin < taps.channels; begin += 4, stream += words) {
            const int32_t channel = tw_min(begin, given->last);
            int8_t bytes[4];
            four(&taps, size, 0, channel, stream, bytes);
            if (taps.to_0 != taps.to_1) {
                four(&taps, size, stride, channel, stream, taps.to_1 + channel);
            }
            TW_COPY(taps.to_0 + channel, bytes, sizeof bytes); /* both are read before one is written */
        }
        taps.to_0 += 2 * taps.channels;
        taps.to_1 += 2 * taps.channels;
        for (int32_t row = 0; row < size && taps.pairs > 1; ++row) {
            taps.rows[row] += taps.across + taps.channels;
        }
    }
}

#define TW_TAPS_ALONE(name, size, taps, firsts, row)
#define TW_TAPS_OUTPUTS(name, alone, size, stride, columns, taps, firsts, row) \
    void name(const tw_taps *outputs) { plain(outputs, size, stride); }

#endif

/* The taps of a window of `width` columns that is partly outside the map. */
static void set_taps(tw_taps *taps, const tw_conv *p, const tw_view *in, int32_t top, int32_t left, int32_t width)
{
    const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h), cols = tw_inside(left, width, 1, p->in.w);
    const int is_outside = rows.begin >= rows.end || cols.begin >= cols.end;
    int32_t offset = is_outside ? 0 : tw_offset(in, top + rows.begin, left + cols.begin, p->in.c);
    taps->begin = cols.begin;
    taps->end = cols.end;
    for (int32_t row = 0; row < p->kernel.h; ++row) {
        if (is_outside || row < rows.begin || row >= rows.end) {
            taps->rows[row] = NULL;
            continue;
        }
        taps->rows[row] = (const int8_t *)in->data + offset;
        offset = tw_down(offset, in->row_stride, in->ring_height * in->row_stride);
    }
}

/* A range of the output of a kernel that is `size` high and wide. */
TW_INLINE void outputs_in(const tw_depthwise_lean_dsp *params, tw_view in, tw_view out, tw_range range, int32_t size)
{
    const tw_conv *p = &params->base.conv;
    const int32_t channels = p->in.c, stride = p->stride.w, ring = in.ring_height * in.row_stride;
    tw_taps taps;
    taps.last = channels - 4;
    taps.channels = channels;
    taps.across = (2 * stride - 1) * channels;
    taps.stream = params->base.stream;
    taps.zero = p->out_zero;
    taps.sign = params->base.sign;
    taps.padding = params->padding;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int32_t top = y * p->stride.h - p->pad.h;
        const int whole = top >= 0 && top + size <= p->in.h;
        int8_t *const begin = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        taps.to_0 = begin;
        for (int32_t x = range.col_begin, outputs; x < range.col_end; x += outputs) {
            const int32_t left = x * stride - p->pad.w, both = x + 1 < range.col_end, width = both ? size + stride : size;
            const int32_t spare = p->in.w - width - left; /* columns behind the windows */
            taps.inside = whole && left >= 0 && spare >= 0;
            taps.pairs = 1;
            taps.to_1 = taps.to_0;
            outputs = 1;
            if (both) {
                taps.pairs = taps.inside ? tw_min(spare / (2 * stride) + 1, (range.col_end - x) / 2) : 1;
                taps.to_1 += channels;
                outputs = 2 * taps.pairs;
            }
            if (taps.inside) {
                int32_t offset = tw_offset(&in, top, left, channels);
                for (int32_t row = 0; row < size; ++row) {
                    taps.rows[row] = (const int8_t *)in.data + offset;
                    offset = tw_down(offset, in.row_stride, ring);
                }
            } else {
                set_taps(&taps, p, &in, top, left, width);
            }
            params->taps(&taps);
            taps.to_0 += outputs * channels;
        }
        tw_clamp_all(begin, (range.col_end - range.col_begin) * channels, p->out_min, p->out_max);
    }
}

/* The forms of a kernel that is `size` high and wide. */
#define TW_TAPS_KERNEL(name, size)                                                                                          \
    TW_FORMS(name, tw_depthwise_lean_dsp, tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out, \
             outputs_in(p, in, out, range, size))

#endif
