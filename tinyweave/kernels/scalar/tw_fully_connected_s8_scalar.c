/* tw_fully_connected_s8_scalar.c - int8 dense layer for cores that multiply words one at a time: two inputs at once, four filters.
 *
 * (x2 + 2^16 * x0) * (w0 + 2^16 * w2) has x0 * w0 + x2 * w2 in its high half, to which x2 * w0 in the low half is added. Weights
 * are bytes w + 128, which a mask unpacks; a word per two inputs subtracts what 128 adds, and rounds the low half down. */
#include "tw_fully_connected_dsp.h"

#define FILTERS 4         /* of a group; tests draw as many */
#define MASK 0x00FF00FFu

#if defined(__ARM_ARCH_7M__) && defined(__GNUC__)

/* Four inputs times a filter: 7 instructions. r3: MASK; r4 .. r7: the packed inputs; r12, lr: weights, products. */
#define FILTER(sum)                            \
    "ldr r12, [r2], #4\n"                      \
    "and.w lr, r3, r12\n"                      \
    "and.w r12, r3, r12, lsr #8\n"             \
    "mla lr, r4, lr, r5\n"                     \
    "mla r12, r6, r12, r7\n"                   \
    "add.w " sum ", " sum ", lr, asr #16\n"    \
    "add.w " sum ", " sum ", r12, asr #16\n"

/* As below in plain C. r0: inputs; r1: their end; r2: stream; r3: sums; r8 .. r11: the sums. Stack, 36 bytes: r3 .. r11. */
static const uint32_t *four_sums(const uint32_t *inputs, const uint32_t *end, const uint32_t *stream, uint32_t *sums)
{
    register const uint32_t *r0 __asm__("r0") = inputs, *r1 __asm__("r1") = end, *r2 __asm__("r2") = stream;
    register uint32_t *r3 __asm__("r3") = sums;
    __asm__ volatile(".syntax unified\n push {r3-r11}\n ldm r2!, {r8-r11}\n mov.w r3, #0x00ff00ff\n"
                     "1:\n ldm r0!, {r4-r7}\n" FILTER("r8") FILTER("r9") FILTER("r10") FILTER("r11")
                     "cmp r0, r1\n bne 1b\n pop {r3}\n stm r3, {r8-r11}\n pop {r4-r11}\n"
                     : "+r"(r0), "+r"(r2), "+r"(r3) : "r"(r1) : "r12", "lr", "cc", "memory");
    return r2;
}

#else

/* Adds the products of a quad of inputs with filter k. */
#define FILTER(k)                                                                                              \
    do {                                                                                                       \
        const uint32_t four = stream[k], even = x0 * (four & MASK) + c0, odd = x1 * (four >> 8 & MASK) + c1;   \
        sum##k += (uint32_t)((int32_t)even >> 16) + (uint32_t)((int32_t)odd >> 16);                            \
    } while (0)

/* Computes the sums of four filters; returns the rest of the stream. */
static const uint32_t *four_sums(const uint32_t *inputs, const uint32_t *end, const uint32_t *stream, uint32_t *sums)
{
    uint32_t sum0 = stream[0], sum1 = stream[1], sum2 = stream[2], sum3 = stream[3];
    for (stream += FILTERS; inputs != end; inputs += 4, stream += FILTERS) {
        const uint32_t x0 = inputs[0], c0 = inputs[1], x1 = inputs[2], c1 = inputs[3];
        FILTER(0);
        FILTER(1);
        FILTER(2);
        FILTER(3);
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
    return stream;
}

#endif

/* Packs two inputs to a word, and the word that is added to its products. */
static inline void pack(uint32_t *to, int32_t low, int32_t high)
{
    to[0] = (uint32_t)low + ((uint32_t)high << 16);
    to[1] = 0x8000u - 128u * (to[0] + (to[0] << 16));
}

/* Computes the outputs of a row of inputs. */
static void multiply(const tw_fully_connected_dsp *p, const int8_t *from, int8_t *to, uint32_t *packed)
{
    const int32_t depth = p->dense.in.c, units = p->dense.out.c;
    const uint32_t *stream = p->stream;
    uint32_t sums[4 * FILTERS], *end = packed;
    int8_t last[4] = {0, 0, 0, 0}; /* inputs, filled up to a quad */
    for (int32_t i = depth & ~3; i < depth; ++i) {
        last[i & 3] = from[i];
    }
    for (int32_t i = 0; i < depth; i += 4, end += 4) {
        const int8_t *const four = i + 4 <= depth ? from + i : last;
        pack(end, four[2], four[0]);
        pack(end + 2, four[3], four[1]);
    }
    for (int32_t channel = 0, count; channel < units; channel += count) {
        count = tw_min(4 * FILTERS, units - channel);
        for (int32_t i = 0; i < count; i += FILTERS) {
            stream = four_sums(packed, end, stream, sums + i);
        }
        tw_fully_connected_finish_s8(&p->dense, 0, channel, (const int32_t *)sums, count, to);
    }
}

void tw_fully_connected_s8_scalar_part(const tw_fully_connected_dsp *p, tw_view in, tw_view out, tw_range range, void *scratch)
{
    for (int32_t y = range.row_begin; y < range.row_end; ++y) {
        for (int32_t x = range.col_begin; x < range.col_end; ++x) {
            multiply(p, (const int8_t *)tw_pixel(&in, y, x, p->dense.in.c), (int8_t *)tw_pixel(&out, y, x, p->dense.out.c),
                     (uint32_t *)scratch);
        }
    }
}

TW_WHOLE_FORM_SCRATCH(tw_fully_connected_s8_scalar, tw_fully_connected_dsp, tw_whole(in, p->dense.in), tw_whole(out, p->dense.out),
                      p->dense.out)
