/* tw_conv_2d_s8_lean_dsp.c - int8 convolution with the Arm DSP extension and without scratch: one pixel times four filters, the
 * window read in place, or copied to the stack, instead of from an im2col buffer.
 *
 * Layers: conv_2d with windows that have at most TW_CONV_LEAN_MOST_PARTS parts, or that are copied.
 * Copied are windows of at most TW_CONV_LEAN_MOST_COPIED bytes whose pixels are not whole words.
 * Weights: the stream of tw_conv_dsp.h. Order of the inputs: row by row of the window if windows are copied, else that of
 * tw_conv_pairs.h.
 * Cost: 17 instructions per 16 MACs. Fitted (layer_cycles.json): 1.44 cycles per MAC on a Cortex-M4, 1.25 on a Cortex-M7.
 * Stack: 0.4 KB.
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
    union {
        window_part parts[TW_CONV_LEAN_MOST_PARTS];  /* row by row of the window, from the front */
        int8_t copies[TW_CONV_LEAN_MOST_PARTS * sizeof(window_part)];  /* copied quads of the window, from the end */
    } window;
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
        for (const window_part *part = outputs->window.parts; part->from; ++part) {
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

/* The windows of a layer, and where their bytes go. */
typedef struct {
    const tw_conv_shape *p;
    const int8_t *data;     /* of the input */
    const int8_t *padding;  /* a row of a window of the input's zero point */
    int32_t rows, run;      /* rows of a window; bytes of a row of a window */
    int32_t step, ring;     /* bytes from a row of the input to the next; bytes of the whole ring */
    int32_t is_copied;      /* whether windows are copied, else they are read in place */
    int8_t *copy;           /* the whole window if it is copied, else the incomplete quads of all rows */
    int32_t bytes;          /* at `copy`: whole quads */
} windows;

/* A row of a window: `inside` bytes from `from` on are in the map, with `before` bytes of padding before them. */
typedef struct {
    const int8_t *from;
    int32_t before, inside;
} window_row;

/* Appends a part if it has any bytes; returns the next free part. */
static inline window_part *put(window_part *part, const int8_t *from, int32_t bytes)
{
    if (bytes > 0) {
        part->from = from;
        part->end = from + bytes;
        part->skip = (uint32_t)(-(bytes / 4) & (UNROLLED - 1)) * FOUR_BYTES;
        ++part;
    }
    return part;
}

/* Copies the bytes [begin, end) of a row of a window. */
static void take(int8_t *to, const window_row *row, int32_t begin, int32_t end, const int8_t *padding)
{
    for (int32_t i = begin; i < end; ++i) {
        *to++ = tw_is_in(i - row->before, row->inside) ? row->from[i - row->before] : *padding;
    }
}

/* Copies a window inside the map that begins at `offset`. The last word of a row overlaps the word before it. */
TW_NOT_INLINE void copy_inside(const windows *given, int32_t offset)
{
    const int32_t run = given->run, step = given->step, ring = given->ring;
    const int8_t *const data = given->data;
    int8_t *to = given->copy;
    for (int32_t row = given->rows; row > 0; --row) {
        const int8_t *from = data + offset;
        int8_t *const end = to + run;
        if (run >= 4) {
            for (; end - to >= 4; to += 4, from += 4) {
                tw_put_word(to, tw_word(from));
            }
            from -= 4 - (end - to);
            to = end - 4;
            tw_put_word(to, tw_word(from));
            to = end;
        } else {
            do {
                *to++ = *from++;
            } while (to != end);
        }
        offset = tw_down(offset, step, ring);
    }
}

/* Lists the parts of a window inside the map that begins at `offset`; returns the next free part. */
TW_NOT_INLINE window_part *list_inside(const windows *given, window_part *part, int32_t offset)
{
    const int32_t whole = given->run & ~3, rest = given->run & 3;
    int8_t *to = given->copy;
    for (int32_t row = given->rows; row > 0; --row) {
        const int8_t *from = given->data + offset;
        part = put(part, from, whole);
        from += whole;
        for (int32_t i = rest; i > 0; --i) {
            *to++ = *from++;
        }
        offset = tw_down(offset, given->step, given->ring);
    }
    return part;
}

/* Lists the whole quads of a row of a window, `whole` bytes, in place. A quad that is partly padding is copied to the four
 * bytes before *mixed. Returns the next free part. */
static window_part *list_row(window_part *part, const window_row *row, int32_t whole, const int8_t *padding, int8_t **mixed)
{
    const int32_t past = row->before + row->inside;
    int32_t begin = row->before & ~3, end = past & ~3;
    part = put(part, padding, begin);
    if (begin < row->before && begin < whole) {
        *mixed -= 4;
        take(*mixed, row, begin, begin + 4, padding);
        part = put(part, *mixed, 4);
        begin += 4;
    }
    if (begin < end) {
        part = put(part, row->from + (begin - row->before), end - begin);
    }
    end = tw_max(begin, end);
    if (end < past && end < whole) {
        *mixed -= 4;
        take(*mixed, row, end, end + 4, padding);
        part = put(part, *mixed, 4);
        end += 4;
    }
    return put(part, padding, whole - end);
}

/* Copies or lists any window, with padding, that begins in column `left`. `offset`: of column 0 in its first row inside the map.
 * Returns the next free part. */
TW_NOT_INLINE window_part *across(const windows *given, window_part *part, int32_t top, int32_t left, int32_t offset)
{
    const tw_conv_shape *p = given->p;
    const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h), cols = tw_inside(left, p->kernel.w, 1, p->in.w);
    const int32_t depth = p->in.c, whole = given->run & ~3, before = cols.begin * depth;
    const int32_t inside = (cols.end - cols.begin) * depth;
    offset += (left + cols.begin) * depth;
    int8_t *to = given->copy, *mixed = to;
    for (int32_t i = 0; i < given->rows; ++i) {
        window_row row = {given->data, given->run, 0};
        if (inside > 0 && i >= rows.begin && i < rows.end) {
            row.from = given->data + offset;
            row.before = before;
            row.inside = inside;
            offset = tw_down(offset, given->step, given->ring);
        }
        const int32_t begin = given->is_copied ? 0 : whole;
        if (!given->is_copied) {
            part = list_row(part, &row, whole, given->padding, &mixed);
        }
        take(to, &row, begin, given->run, given->padding);
        to += given->run - begin;
    }
    return part;
}

/* Sets how windows are read. Zeros follow the copied bytes up to a quad. */
TW_NOT_INLINE void windows_set(windows *given, const tw_conv_lean_dsp *params, const tw_view *in, pixel_outputs *outputs)
{
    const tw_conv_shape *p = &params->base.conv;
    const int32_t rows = p->kernel.h, run = p->kernel.w * p->in.c, rests = (rows * (run & 3) + 3) & ~3;
    given->p = p;
    given->data = (const int8_t *)in->data;
    given->padding = params->padding;
    given->rows = rows;
    given->run = run;
    given->step = in->row_stride;
    given->ring = in->ring_height * in->row_stride;
    given->bytes = (rows * run + 3) & ~3;
    given->is_copied = (p->in.c & 3) && given->bytes <= TW_CONV_LEAN_MOST_COPIED;
    if (given->is_copied) {
        given->copy = outputs->window.copies + 2 * sizeof(window_part);
    } else {
        given->bytes = rests;
        given->copy = outputs->window.copies + (int32_t)sizeof outputs->window - rests;
    }
    if (given->bytes > 0) {
        tw_put_word(given->copy + given->bytes - 4, 0); /* the weights there are zeros, too */
    }
}

/* Computes all outputs of a pixel; returns their end. */
TW_NOT_INLINE int8_t *all_outputs(pixel_outputs *outputs, const tw_conv_lean_dsp *params, int8_t *to)
{
    int8_t *const end = to + params->base.conv.out.c;
    const int32_t tail = params->base.conv.out.c & 3;
    outputs->stream = params->base.stream;
    outputs->to = to;
    outputs->to_end = end - tail;
    if (outputs->to != outputs->to_end) {
        outputs->stream = fours(outputs);
    }
    if (tail) { /* the tail of filters is padded to four */
        int8_t four[4];
        outputs->to = four;
        outputs->to_end = four + 4;
        fours(outputs);
        for (int32_t i = 0; i < tail; ++i) {
            end[i - tail] = four[i];
        }
    }
    return end;
}

void tw_conv_2d_s8_lean_dsp_part(const tw_conv_lean_dsp *params, tw_view in, tw_view out, tw_range range)
{
    const tw_conv_shape *p = &params->base.conv;
    const int32_t stride = p->stride.w, past = range.col_end * stride - p->pad.w;
    pixel_outputs outputs;
    windows given;
    windows_set(&given, params, &in, &outputs);
    outputs.zero = p->out_zero;
    outputs.sign = params->base.sign;
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        const int32_t top = y * p->stride.h - p->pad.h;
        const tw_span rows = tw_inside(top, p->kernel.h, 1, p->in.h);
        const int32_t offset = rows.begin < rows.end ? tw_offset(&in, top + rows.begin, 0, p->in.c) : 0;
        const int32_t end = rows.end - rows.begin == p->kernel.h ? p->in.w - p->kernel.w : -1; /* last column of a window inside */
        int8_t *const begin = (int8_t *)tw_pixel(&out, y, range.col_begin, p->out.c);
        int8_t *to = begin;
        for (int32_t left = range.col_begin * stride - p->pad.w; left < past; left += stride) {
            window_part *part = outputs.window.parts;
            if (left < 0 || left > end) {
                part = across(&given, part, top, left, offset);
            } else if (given.is_copied) {
                copy_inside(&given, offset + left * p->in.c);
            } else {
                part = list_inside(&given, part, offset + left * p->in.c);
            }
            part = put(part, given.copy, given.bytes);
            part->from = NULL;
            to = all_outputs(&outputs, params, to);
        }
        tw_clamp_all(begin, (int32_t)(to - begin), p->out_min, p->out_max);
    }
}

TW_WHOLE_FORM(tw_conv_2d_s8_lean_dsp, tw_conv_lean_dsp,
              tw_whole(in, p->base.conv.in), tw_whole(out, p->base.conv.out), p->base.conv.out)
