/* tw_line_rows.h - loop of the line functions for windows of three rows, with the Arm DSP extension: channels, rows and pairs
 * of outputs. The including file defines the code of one pair of outputs. tw_line.h has the layers, the layout of the weights
 * and the cost. */
#ifndef TW_LINE_ROWS_H
#define TW_LINE_ROWS_H

#include <stddef.h>

#include "tw_dsp.h"
#include "tw_line.h"

/* What the assembly needs for all channels and rows. It copies the members to the stack in this order. */
typedef struct {
    int32_t power, zero, step;
    const uint32_t *whole;            /* end of the row's pairs in the line; set by the assembly */
    int32_t left;                     /* rows left; set by the assembly */
    int32_t x_on, to_on;              /* bytes from the end of a row's pairs to the next row */
    int32_t whole_on;                 /* bytes from a row's `whole` to the next row's */
    const uint32_t *words;
    int32_t odd, rows;
    const uint32_t *x;
    int8_t *to;
    int32_t planes, length;           /* channels left; bytes of a row's pairs */
} tw_twos;

/* All channels and rows of a line function. pair(fix): computes two outputs, advances r0 and r2, and leaves the end of the
 * row's pairs in lr. last: the instruction for the second word of weights of a single output, SMLABT at stride 1, SMLAD at
 * stride 2.
 * Registers: r0: line; r2: output; r3: bias; r4 .. r9: the six words of weights of a channel; r10: multiplier; r11, r12: sums;
 * r1, lr: inputs.
 * Stack, 92 bytes: r4 .. r11, saved here since the code needs all registers; below them a tw_twos: [sp] power, +4 zero, +8
 * step, +12 whole, +16 left, +20 x_on, +24 to_on, +28 whole_on, +32 words, +36 odd, +40 rows, +44 x, +48 to, +52 planes, +56
 * length.
 * Labels: 1: the next channel; its weights stay in registers for all rows; 2: a pair of outputs; 5: the odd last output; 3: the
 * next row; 4: the end of a channel. Equals, for three rows, tw_line_any_1 at stride 1 and plain() of tw_line.c at stride 2. */
#define TWOS(pair, last, fix)           \
    "push {r4-r11}\n"                   \
    "ldr r1, [r0, #56]\n"               \
    "push {r1}\n"                       \
    "add r1, r0, #28\n"                 \
    "ldm r1, {r3-r9}\n"                 \
    "push {r3-r9}\n"                    \
    "ldm r0, {r3-r9}\n"                 \
    "push {r3-r9}\n"                    \
    "1:\n"                              \
    "ldr r1, [sp, #32]\n"               \
    "ldrd r0, r2, [sp, #44]\n"          \
    "ldm r1!, {r3-r10}\n"               \
    "ldr r11, [r1], #4\n"               \
    "ldr r12, [sp, #56]\n"              \
    "str r1, [sp, #32]\n"               \
    "add r12, r12, r0\n"                \
    "ldr r1, [sp, #40]\n"               \
    "str r11, [sp]\n"                   \
    "strd r12, r1, [sp, #12]\n"         \
    "cmp r0, r12\n"                     \
    "beq.w 5f\n"                        \
    "2:\n"                              \
    pair(fix)                           \
    "cmp r0, lr\n"                      \
    "blo.w 2b\n"                        \
    "5:\n"                              \
    "ldr r1, [sp, #36]\n"               \
    "cbz r1, 3f\n"                      \
    "ldrd r1, lr, [r0, #0]\n"           \
    "smlad r11, r1, r4, r3\n"           \
    last " r11, lr, r5, r11\n"          \
    "ldrd r1, lr, [r0, #256]\n"         \
    "smlad r11, r1, r6, r11\n"          \
    last " r11, lr, r7, r11\n"          \
    "ldrd r1, lr, [r0, #512]\n"         \
    "smlad r11, r1, r8, r11\n"          \
    last " r11, lr, r9, r11\n"          \
    "ldrd r1, lr, [sp]\n"               \
    "smmulr r11, r11, r10\n"            \
    TW_OUTPUT("r11", fix, "r1", "lr")   \
    "strb r11, [r2]\n"                  \
    "3:\n"                              \
    "add r1, sp, #12\n"                 \
    "ldm r1, {r1, r11, r12, lr}\n"      \
    "subs r11, r11, #1\n"               \
    "beq 4f\n"                          \
    "add r0, r0, r12\n"                 \
    "add r2, r2, lr\n"                  \
    "ldr r12, [sp, #28]\n"              \
    "add r1, r1, r12\n"                 \
    "strd r1, r11, [sp, #12]\n"         \
    "cmp r0, r1\n"                      \
    "blo.w 2b\n"                        \
    "b 5b\n"                            \
    "4:\n"                              \
    "add r1, sp, #44\n"                 \
    "ldm r1, {r2, r3, r4}\n"            \
    "add r2, r2, #64\n"                 \
    "add r3, r3, #1\n"                  \
    "subs r4, r4, #1\n"                 \
    "stm r1, {r2, r3, r4}\n"            \
    "bne.w 1b\n"                        \
    "add sp, sp, #60\n"                 \
    "pop {r4-r11}\n"

/* Computes the rows of a line from `first` on, at least one; bytes: of a line per pair of outputs. */
#define RUN_TWOS(line, first, pair, last, bytes)                                                                         \
    do {                                                                                                                 \
        const int32_t pairs = (line)->count / 2, length = pairs * (bytes), on = 4 * (line)->stride * TW_LINE_ROW_WORDS;  \
        const tw_twos frame = {                                                                                          \
            0, (line)->zero, (line)->step, NULL, 0, on - length, (line)->down - 2 * pairs * (line)->step, on,            \
            (line)->words, (line)->count & 1, (line)->rows - (first), (line)->x + (first) * (on / 4),                    \
            (line)->to + (first) * (line)->down, (line)->channels, length,                                               \
        };                                                                                                               \
        if ((line)->sign) {                                                                                              \
            TW_RUN(TWOS(pair, last, TW_FIX), &frame);                                                                    \
        } else {                                                                                                         \
            TW_RUN(TWOS(pair, last, TW_NO_FIX), &frame);                                                                 \
        }                                                                                                                \
    } while (0)

/* Defines a tw_line_outputs. */
#define TWOS_OF(name, pair, last, bytes) \
    void name(const tw_line *line) { RUN_TWOS(line, 0, pair, last, bytes); }

#endif
