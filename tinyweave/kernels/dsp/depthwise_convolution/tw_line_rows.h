/* tw_line_rows.h - what assembly for lines of kernels of three rows shares: all but what computes two outputs. */
#ifndef TW_LINE_ROWS_H
#define TW_LINE_ROWS_H

#include <stddef.h>

#include "tw_dsp.h"
#include "tw_line.h"

/* Two sums at a time, all weights of three rows in registers; r0: line, r2: output, r3: bias, r4 .. r9: weights,
 * r10: multiplier, r11, r12: sums, r1, lr: inputs. The stack holds a tw_twos. */
typedef struct {
    int32_t power, zero, step;
    const uint32_t *whole;            /* where the pairs of sums of a row end; there may be one more sum */
    int32_t left;                     /* rows that are left */
    int32_t x_on, to_on;              /* bytes from where the pairs of a row end to the next row */
    int32_t whole_on;                 /* bytes from a row's line to the next one's */
    const uint32_t *words;
    int32_t odd, rows;
    const uint32_t *x;
    int8_t *to;
    int32_t planes, length;           /* channels that are left; bytes of a row's pairs */
} tw_twos;

#define ONE(at, w, last, second, first)              \
    "ldrd r1, lr, [r0, #" at "]\n"                   \
    "smlad r11, r1, " w ", " first "\n"              \
    last " r11, lr, " second ", r11\n"
/* pair(fix): both outputs; moves r0 and r2 on and leaves where the row's pairs end in lr. last: the instruction for the second
 * word of a row's only output. */
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
    ONE("0", "r4", last, "r5", "r3")    \
    ONE("256", "r6", last, "r7", "r11") \
    ONE("512", "r8", last, "r9", "r11") \
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

#define TWOS_OF(name, pair, last, bytes)                                                                                 \
    void name(const tw_line *line)                                                                                       \
    {                                                                                                                    \
        const int32_t pairs = line->count / 2, length = pairs * (bytes), on = 4 * line->stride * TW_LINE_ROW_WORDS;      \
        const tw_twos frame = {0, line->zero, line->step, NULL, 0, on - length, line->down - 2 * pairs * line->step, on, \
                               line->words, line->count & 1, line->rows, line->x, line->to, line->channels, length};     \
        if (line->sign) {                                                                                                \
            TW_RUN(TWOS(pair, last, TW_FIX), &frame);                                                                    \
        } else {                                                                                                         \
            TW_RUN(TWOS(pair, last, TW_NO_FIX), &frame);                                                                 \
        }                                                                                                                \
    }

#endif
