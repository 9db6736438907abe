/* tw_line_quads.h - assembly for tw_line.c: two by two outputs of 3x3 windows at stride 1. */
#ifndef TW_LINE_QUADS_H
#define TW_LINE_QUADS_H

#include <stdint.h>

/* What the assembly of QUADS needs for all channels and pairs of rows. It copies the members to the stack in this order. */
typedef struct {
    int32_t multiplier, power;  /* set by the assembly */
    int32_t zero, step, down;   /* bytes to the next output; to the next row */
    const uint32_t *end;        /* of the row's blocks in the line; set by the assembly, as are bias and left */
    int32_t bias, left;         /* of the channel; pairs of rows left */
    int32_t odd;                /* whether there is an odd last column */
    int32_t x_on, to_on;        /* bytes from the end of a pair of rows' blocks to the next pair */
    int32_t length;             /* bytes of a row's blocks */
    const uint32_t *words, *x;
    int8_t *to;
    int32_t planes, pairs;      /* channels left; pairs of rows */
} tw_quads;

/* All channels of pairs of rows of windows of three rows, at stride 1: two by two outputs at a time.
 * Registers: r0: line; r2: output; r4 .. r9: the six words of weights of a channel; r10, r11: sums of the first row; r12, r3:
 * sums of the second row, r3 the bias before; r1, lr: inputs, then multiplier, power, zero point, step and end.
 * Stack, 100 bytes: r4 .. r11, saved here since the code needs all registers; below them a tw_quads: [sp] multiplier, +4 power,
 * +8 zero, +12 step, +16 down, +20 end, +24 bias, +28 left, +32 odd, +36 x_on, +40 to_on, +44 length, +48 words, +52 x, +56 to,
 * +60 planes, +64 pairs.
 * Order: each of four rows of inputs is loaded once, by one LDRD; the middle two serve both rows of outputs.
 * Labels: 1: the next channel; 6: the next pair of rows; 2: a block; 5: the odd last column; 3: the end of a pair of rows; 4:
 * the end of a channel. Equals any_row() for two rows. */
#define QUAD_PRODUCTS(even, odd, left, right, even_from, odd_from)  \
    "smlad " even ", r1, " left ", " even_from "\n"                 \
    "smlad " odd ", lr, " right ", " odd_from "\n"                  \
    "smlabt " even ", lr, " right ", " even "\n"                    \
    "smlatb " odd ", r1, " left ", " odd "\n"
#define COLUMN_PRODUCTS(sum, left, right, from)  \
    "smlad " sum ", r1, " left ", " from "\n"    \
    "smlabt " sum ", lr, " right ", " sum "\n"
/* Code for the sums of two by two outputs; of the odd last column. Steps of rescaling. */
#define ALL_FOUR(code) code("r10") code("r11") code("r12") code("r3")
#define BOTH_ROWS(code) code("r10") code("r12")
#define TIMES_MULTIPLIER(sum) "smmulr " sum ", " sum ", r1\n"
#define TIMES_POWER(sum) "smmlar " sum ", " sum ", lr, r1\n"
#define CLAMPED(sum) "ssat " sum ", #8, " sum "\n"
#define QUADS(fix)                                          \
    "push {r4-r11}\n"                                       \
    "sub sp, sp, #68\n"                                     \
    "mov r12, sp\n"                                         \
    "ldm r0!, {r1-r9}\n"                                    \
    "stm r12!, {r1-r9}\n"                                   \
    "ldm r0, {r1-r8}\n"                                     \
    "stm r12, {r1-r8}\n"                                    \
    "1:\n"                                                  \
    "ldr r1, [sp, #48]\n"                                   \
    "ldm r1!, {r3-r11}\n"                                   \
    "str r1, [sp, #48]\n"                                   \
    "strd r10, r11, [sp]\n"                                 \
    "ldr r1, [sp, #64]\n"                                   \
    "ldrd r0, r2, [sp, #52]\n"                              \
    "strd r3, r1, [sp, #24]\n"                              \
    "6:\n"                                                  \
    "ldr r1, [sp, #44]\n"                                   \
    "add r1, r1, r0\n"                                      \
    "str r1, [sp, #20]\n"                                   \
    "cmp r0, r1\n"                                          \
    "beq.w 5f\n"                                            \
    "2:\n"                                                  \
    "ldr r3, [sp, #24]\n"                                   \
    "ldrd r1, lr, [r0]\n"                                   \
    QUAD_PRODUCTS("r10", "r11", "r4", "r5", "r3", "r3")     \
    "ldrd r1, lr, [r0, #256]\n"                             \
    QUAD_PRODUCTS("r10", "r11", "r6", "r7", "r10", "r11")   \
    QUAD_PRODUCTS("r12", "r3", "r4", "r5", "r3", "r3")      \
    "ldrd r1, lr, [r0, #512]\n"                             \
    QUAD_PRODUCTS("r10", "r11", "r8", "r9", "r10", "r11")   \
    QUAD_PRODUCTS("r12", "r3", "r6", "r7", "r12", "r3")     \
    "ldrd r1, lr, [r0, #768]\n"                             \
    QUAD_PRODUCTS("r12", "r3", "r8", "r9", "r12", "r3")     \
    "ldrd r1, lr, [sp]\n"                                   \
    ALL_FOUR(TIMES_MULTIPLIER)                              \
    "ldr r1, [sp, #8]\n"                                    \
    ALL_FOUR(fix)                                           \
    ALL_FOUR(TIMES_POWER)                                   \
    "ldrd r1, lr, [sp, #12]\n"                              \
    ALL_FOUR(CLAMPED)                                       \
    "add lr, lr, r2\n"                                      \
    "strb r11, [r2, r1]\n"                                  \
    "strb r10, [r2]\n"                                      \
    "strb r3, [lr, r1]\n"                                   \
    "strb r12, [lr]\n"                                      \
    "ldr lr, [sp, #20]\n"                                   \
    "add r0, r0, #4\n"                                      \
    "add r2, r2, r1, lsl #1\n"                              \
    "cmp r0, lr\n"                                          \
    "blo.w 2b\n"                                            \
    "5:\n"                                                  \
    "ldr r1, [sp, #32]\n"                                   \
    "cmp r1, #0\n"                                          \
    "beq.w 3f\n"                                            \
    "ldr r3, [sp, #24]\n"                                   \
    "ldrd r1, lr, [r0]\n"                                   \
    COLUMN_PRODUCTS("r10", "r4", "r5", "r3")                \
    "ldrd r1, lr, [r0, #256]\n"                             \
    COLUMN_PRODUCTS("r10", "r6", "r7", "r10")               \
    COLUMN_PRODUCTS("r12", "r4", "r5", "r3")                \
    "ldrd r1, lr, [r0, #512]\n"                             \
    COLUMN_PRODUCTS("r10", "r8", "r9", "r10")               \
    COLUMN_PRODUCTS("r12", "r6", "r7", "r12")               \
    "ldrd r1, lr, [r0, #768]\n"                             \
    COLUMN_PRODUCTS("r12", "r8", "r9", "r12")               \
    "ldrd r1, lr, [sp]\n"                                   \
    BOTH_ROWS(TIMES_MULTIPLIER)                             \
    "ldr r1, [sp, #8]\n"                                    \
    BOTH_ROWS(fix)                                          \
    BOTH_ROWS(TIMES_POWER)                                  \
    "ldr r1, [sp, #16]\n"                                   \
    BOTH_ROWS(CLAMPED)                                      \
    "strb r10, [r2]\n"                                      \
    "strb r12, [r2, r1]\n"                                  \
    "3:\n"                                                  \
    "ldr r1, [sp, #28]\n"                                   \
    "subs r1, r1, #1\n"                                     \
    "beq 4f\n"                                              \
    "str r1, [sp, #28]\n"                                   \
    "ldrd r1, lr, [sp, #36]\n"                              \
    "add r0, r0, r1\n"                                      \
    "add r2, r2, lr\n"                                      \
    "b.w 6b\n"                                              \
    "4:\n"                                                  \
    "add r1, sp, #52\n"                                     \
    "ldm r1, {r2, r3, r4}\n"                                \
    "add r2, r2, #64\n"                                     \
    "add r3, r3, #1\n"                                      \
    "subs r4, r4, #1\n"                                     \
    "stm r1, {r2, r3, r4}\n"                                \
    "bne.w 1b\n"                                            \
    "add sp, sp, #68\n"                                     \
    "pop {r4-r11}\n"

#endif
