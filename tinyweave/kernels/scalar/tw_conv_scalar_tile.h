/* tw_conv_scalar_tile.h - two pixels times groups of two filters, for conv_2d on cores that multiply words one at a time. */
#ifndef TW_CONV_SCALAR_TILE_H
#define TW_CONV_SCALAR_TILE_H

#include "tw_conv_scalar.h"

#define FILTERS 2 /* of a group; tests draw as many */
#define HALF 0x8000u /* added to each product of two inputs: its low half is then no negative number */

/* The windows of two pixels, and groups of filters. The assembly reads the members in this order. */
typedef struct {
    const uint32_t *stream;       /* of the first group */
    int32_t lead;                 /* for the assembly: steps that the first round of four lacks */
    uint32_t surplus;             /* HALF for each two inputs */
    int32_t zero;                 /* of the output */
    const uint32_t *inputs, *end; /* packed inputs of both pixels, or places of runs of inputs */
    int8_t *to, *other;           /* outputs of the first pixel, of the second; equal if there is no second */
    int32_t groups;
    const int8_t *data, *outside; /* of runs: the map; a pixel of zero points */
    int32_t run;                  /* inputs of a run, an even number */
} tile;

/* Computes the outputs of groups of filters for both pixels. */
typedef void tw_finish_groups(tile *at);

/* Adds the products of two packed inputs, x0 and x1, with the weights of filter k at w. */
#define PRODUCTS(k)                                                             \
    do {                                                                        \
        const int32_t weight = w[2 * (k)], next = w[2 * (k) + 1];               \
        const uint32_t sum = HALF + x0 * (uint32_t)weight + x1 * (uint32_t)next; \
        sum_##k += sum;                                                         \
        other_##k += (uint32_t)((int32_t)sum >> 16);                            \
    } while (0)
#define RESCALED(sum, k) (int8_t)tw_clamp(tw_rescale_down((int32_t)(sum), rescale[k], less[k]) + zero, -128, 127)

/* Rescales a group's sums, writes the outputs of both pixels. w: behind the weights. Then `stream` is the next group's. */
#define PUT_GROUP                                                             \
    do {                                                                      \
        const uint32_t *const rescale = (const uint32_t *)(const void *)w;    \
        const int8_t *const less = (const int8_t *)(rescale + FILTERS);       \
        *other++ = RESCALED(other_0, 0);                                      \
        *other++ = RESCALED(other_1, 1);                                      \
        *to++ = RESCALED(sum_0 - (other_0 << 16), 0);                         \
        *to++ = RESCALED(sum_1 - (other_1 << 16), 1);                         \
        stream = rescale + FILTERS + 1;                                       \
    } while (0)

/* In assembly: rescales a group's sums, r4 .. r7. r2: the multipliers less 1 byte, then the next group; r3: zero point. */
#define FINISH(twice, less, sum, other) \
    "ldr.w r12, [r2, #" twice "]\n ldrb r0, [r2, #" less "]\n" TW_RESCALED(sum) TW_RESCALED(other)
#define FINISH_GROUP FINISH("1", "9", "r4", "r6") FINISH("5", "10", "r5", "r7") "adds r2, #13\n"
#define PUT "strb r6, [r1], #1\n strb r7, [r1], #1\n strb r4, [r0], #1\n strb r5, [r0], #1\n" /* r0, r1: to, other */

/* Defines a tw_finish_groups in assembly, which finds the tile in r0. */
#define FINISH_GROUPS(assembly)                                                                                          \
    static void finish_groups(tile *at)                                                                                  \
    {                                                                                                                    \
        register tile *given __asm__("r0") = at;                                                                         \
        __asm__ volatile(".syntax unified\n" assembly : "+r"(given) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory"); \
    }

/* Computes the outputs of two pixels, or of one if `second` equals `first`. steps: two inputs of a window each. */
TW_INLINE void tw_multiply_tile(const tw_conv_scalar *p, tile *at, int32_t steps, int8_t *first, int8_t *second,
                                tw_finish_groups *finish_groups)
{
    const int32_t units = p->conv.out.c, twos = units / FILTERS;
    int8_t spare[2 * FILTERS];
    at->stream = p->stream;
    at->groups = twos;
    at->to = first;
    at->other = second;
    if (twos > 0) {
        finish_groups(at);
    }
    if (units % FILTERS) {
        at->stream += twos * (2 * FILTERS + 1 + steps);
        at->groups = 1;
        at->to = spare;
        at->other = spare + FILTERS;
        finish_groups(at);
        second[units - 1] = spare[FILTERS];
        first[units - 1] = spare[0];
    }
    if (p->conv.out_min > -128 || p->conv.out_max < 127) {
        for (int32_t k = 0; k < units; ++k) {
            second[k] = (int8_t)tw_clamp(second[k], p->conv.out_min, p->conv.out_max);
            first[k] = (int8_t)tw_clamp(first[k], p->conv.out_min, p->conv.out_max);
        }
    }
}

#endif
