/* tw_conv_2d_s8_lean_dsp.c - int8 convolution with the Arm DSP extension and without scratch: one pixel times four filters, the
 * window read in place instead of from an im2col buffer.
 *
 * Layers: conv_2d whose input channels are a multiple of 4, windows of at most TW_CONV_LEAN_MOST_ROWS rows.
 * Weights: the stream of tw_pair_s8.h, row by row of the window.
 * Cost: 17 instructions per 16 MACs. Fitted (layer_cycles.json): 1.44 cycles per MAC on a Cortex-M4, 1.25 on a Cortex-M7.
 */
#include "tw_conv_dsp.h"

#include <stddef.h>

#include "tw_dsp.h"

#define UNROLLED 4    /* quads of inputs per round of the loop */
#define FOUR_BYTES 68 /* code of a quad */
#define FOUR_WORDS 4  /* of the stream, per quad */

/* A contiguous run of inputs of a window, in quads. */
typedef struct {
    const int8_t *from, *end;  /* `from` is NULL after the last part of a window */
    uint32_t skip;             /* bytes of code that the first round skips, so that the last round is whole */
} window_part;

/* Outputs of one pixel. The assembly loads the members in this order. */
typedef struct {
    int8_t *to;
    const int8_t *to_end;
    int32_t zero, sign;
    const uint32_t *stream;
    window_part parts[3 * TW_CONV_LEAN_MOST_ROWS + 1];  /* per row of the window: padding, inputs, padding */
} pixel_outputs;

#if TW_HAS_DSP

/* A quad of inputs times four filters. r2, r3: inputs (k, k + 2) and (k + 1, k + 3); r11, r12: weights of filters 0 and 1, of
 * filters 2 and 3; r4 .. r7: sums. As in tw_pair_s8.c a packed word is used before SXTB16 replaces it by the even filter's
 * weights. One load of four inputs per 16 MACs. */
#define HALF(x)                   \
    "ldrd r11, r12, [r1], #8\n"   \
    "smlad r5, " x ", r11, r5\n"  \
    "smlad r7, " x ", r12, r7\n"  \
    "sxtb16 r11, r11\n"           \
    "sxtb16 r12, r12\n"           \
    "smlad r4, " x ", r11, r4\n"  \
    "smlad r6, " x ", r12, r6\n"
#define FOUR "ldr r2, [r0], #4\nsxtb16 r3, r2, ror #8\nsxtb16 r2, r2\n" HALF("r2") HALF("r3")

/* Output of an even and of an odd filter, as MULTIPLY_0 and MULTIPLY_1 in tw_pair_s8.c. */
#define BYTE(sum, fix) TW_OUTPUT(sum, fix, "r3", "r12") "strb " sum ", [r0], #1\n"
#define FIRST(sum, fix) "ldm r1!, {r2, r3}\nsmmlar " sum ", " sum ", r2, " sum "\n" BYTE(sum, fix)
#define SECOND(sum, fix) "ldm r1!, {r2, r3}\nasr " sum ", " sum ", #7\nsmmulr " sum ", " sum ", r2\n" BYTE(sum, fix)

/* All groups of four filters of a pixel.
 * Registers: lr: the pixel_outputs; r0: inputs of the current part; r9: its end; r8: the next part; r10: label 2; r11: the
 * entry for a part, then weights; r1: stream; r4 .. r7: sums. For the outputs r0: where they go; r2: multiplier; r3: power;
 * r12: zero point.
 * Stack, 32 bytes: r4 .. r11. All other members are read through lr.
 * Loop: four quads per round. Each part enters it late enough that its last round is whole.
 * Order: parts follow each other without a test for padding, since padding is a part that reads a row of zero points.
 * Equals fours() below in plain C; leaves the end of the stream in r0. */
#define OUTPUTS(fix)                                                     \
    "push {r4-r11}\n"                                                    \
    "mov lr, r0\n"                                                       \
    "ldr r1, [lr, #16]\n"                                                \
    "adr r10, 2f\n"                                                      \
    "orr r10, r10, #1\n"                                                 \
    "1:\n"                                                               \
    "ldm r1!, {r4-r7}\n"                                                 \
    "add r8, lr, #20\n"                                                  \
    "ldm r8!, {r0, r9, r11}\n"                                           \
    "add r11, r11, r10\n"                                                \
    "bx r11\n"                                                           \
    ".p2align 2\n"                                                       \
    "2:\n"                                                               \
    FOUR FOUR FOUR FOUR                                                  \
    "cmp r0, r9\n"                                                       \
    "bne.w 2b\n"                                                         \
    "ldm r8!, {r0, r9, r11}\n"                                           \
    "cbz r0, 3f\n"                                                       \
    "add r11, r11, r10\n"                                                \
    "bx r11\n"                                                           \
    "3:\n"                                                               \
    "sub r5, r5, r4\n"                                                   \
    "sub r7, r7, r6\n"                                                   \
    "ldr r0, [lr]\n"                                                     \
    "ldr r12, [lr, #8]\n"                                                \
    FIRST("r4", fix) SECOND("r5", fix) FIRST("r6", fix) SECOND("r7", fix) \
    "str r0, [lr]\n"                                                     \
    "ldr r2, [lr, #4]\n"                                                 \
    "cmp r0, r2\n"                                                       \
    "bne.w 1b\n"                                                         \
    "mov r0, r1\n"                                                       \
    "pop {r4-r11}\n"

#define RUN(fix) __asm__ volatile(OUTPUTS(fix) : "+r"(given) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory")

/* Computes the outputs of whole groups of four filters; returns the end of their stream. */
static const uint32_t *fours(pixel_outputs *outputs)
{
    register const void *given __asm__("r0") = outputs;
    TW_BY_SIGN(outputs->sign, RUN, TW_FIX, TW_NO_FIX);
    return (const uint32_t *)given;
}

#else

static const uint32_t *fours(pixel_outputs *outputs)
{
    const uint32_t *stream = outputs->stream;
    while (outputs->to != outputs->to_end) {
        int32_t sums[4];
        TW_COPY(sums, stream, sizeof sums);
        stream += 4;
        for (const window_part *part = outputs->parts; part->from; ++part) {
            for (const int8_t *from = part->from; from != part->end; from += 4, stream += FOUR_WORDS) {
                const uint32_t word = tw_word(from), even = tw_sxtb16(word), odd = tw_sxtb16_odd(word);
                for (int32_t i = 0; i < 2; ++i) {
                    tw_add_two_s8(even, stream[i], sums + 2 * i);
                    tw_add_two_s8(odd, stream[2 + i], sums + 2 * i);
                }
            }
        }
        for (int32_t i = 0; i < 4; ++i, stream += 2) {
            const int32_t multiplier = tw_signed(stream[0]), sum = tw_sum_s8(sums, i, 1);
            const int32_t high = i & 1 ? tw_smmulr(sum, multiplier) : tw_smmlar(sum, multiplier, sum);
            const int32_t rounded = high + ((high >> 31) & outputs->sign);
            *outputs->to++ = (int8_t)tw_ssat8(tw_smmlar(rounded, tw_signed(stream[1]), outputs->zero));
        }
    }
    return stream;
}

#endif

/* Appends a part if it has any bytes; returns the next free part. */
static window_part *put(window_part *part, const int8_t *from, int32_t bytes)
{
    if (bytes > 0) {
        part->from = from;
        part->end = from + bytes;
        part->skip = (uint32_t)(-(bytes / 4) & (UNROLLED - 1)) * FOUR_BYTES;
        ++part;
    }
    return part;
}

void tw_conv_2d_s8_lean_dsp_part(const tw_conv_lean_dsp *params, tw_view in, tw_view out, tw_range range)
{
    const tw_conv *p = &params->base.conv;
    const int32_t channels = p->out.c, rest = channels & 3, depth = p->in.c, ring = in.ring_height * in.row_stride;
    pixel_outputs outputs;
    outputs.zero = p->out_zero;
    outputs.sign = params->base.sign;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        int8_t *to = (int8_t *)tw_pixel(&out, y, range.col_begin, channels);
        for (int32_t x = range.col_begin; x < range.col_end; ++x, to += channels) {
            const int32_t left = x * p->stride.w - p->pad.w;
            const tw_span cols = tw_inside(left, p->kernel.w, 1, p->in.w);
            const int32_t inside = tw_max(cols.end - cols.begin, 0), before = inside ? cols.begin : p->kernel.w;
            const int8_t *const data = (const int8_t *)in.data;
            int32_t offset = inside && rows.begin < rows.end ? tw_offset(&in, top + rows.begin, left + cols.begin, depth) : 0;
            window_part *part = outputs.parts;
            for (int32_t row = 0; row < p->kernel.h; ++row) {
                if (row < rows.begin || row >= rows.end) {
                    part = put(part, params->padding, p->kernel.w * depth);
                    continue;
                }
                part = put(part, params->padding, before * depth);
                part = put(part, data + offset, inside * depth);
                part = put(part, params->padding, (p->kernel.w - before - inside) * depth);
                offset = tw_down(offset, in.row_stride, ring);
            }
            part->from = NULL;
            outputs.stream = params->base.stream;
            outputs.to = to;
            outputs.to_end = to + channels - rest;
            if (outputs.to != outputs.to_end) {
                outputs.stream = fours(&outputs);
            }
            if (rest) { /* the tail of filters is padded to four */
                int8_t last[4];
                outputs.to = last;
                outputs.to_end = last + 4;
                fours(&outputs);
                for (int32_t i = 0; i < rest; ++i) {
                    to[channels - rest + i] = last[i];
                }
            }
            tw_clamp_all(to, channels, p->out_min, p->out_max);
        }
    }
}

TW_WHOLE_FORM(tw_conv_2d_s8_lean_dsp, tw_conv_lean_dsp,
              tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
