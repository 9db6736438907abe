/* tw_winograd.c - transformed windows, products and outputs of two tiles times four filters, with the Arm DSP extension.
 * tw_winograd.h has the layers, the layout of the weights and the cost. */
#include "tw_winograd.h"

#include "tw_dsp.h"

#define POSITIONS 16

/* Computes B' x in the order 1, 2, 0, 3; results are `step` words apart. */
static inline void transform(uint32_t *to, int32_t step, uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3)
{
    to[0] = tw_sadd16(x1, x2);
    to[step] = tw_ssub16(x2, x1);
    to[2 * step] = tw_ssub16(x0, x2);
    to[3 * step] = tw_ssub16(x3, x1);
}

void tw_winograd_columns(uint32_t *to, const int8_t *const from[4], int32_t words)
{
    const int8_t *from_0 = from[0], *from_1 = from[1], *from_2 = from[2], *from_3 = from[3];
    for (const uint32_t *const end = to + 4 * words; to != end; to += 8) {
        const uint32_t x0 = tw_word(from_0), x1 = tw_word(from_1), x2 = tw_word(from_2), x3 = tw_word(from_3);
        from_0 += 4;
        from_1 += 4;
        from_2 += 4;
        from_3 += 4;
        transform(to, 1, tw_sxtb16(x0), tw_sxtb16(x1), tw_sxtb16(x2), tw_sxtb16(x3));
        transform(to + 4, 1, tw_sxtb16_odd(x0), tw_sxtb16_odd(x1), tw_sxtb16_odd(x2), tw_sxtb16_odd(x3));
    }
}

void tw_winograd_window(const tw_winograd *tiles, int32_t tile, const uint32_t *left, const uint32_t *right)
{
    const int32_t column = 4 * tiles->words;
    const uint32_t *x0 = left, *x1 = left + column, *x2 = right, *x3 = right + column;
    uint32_t *to = tiles->x + tile;
    for (int32_t word = tiles->words; word > 0; --word) {
        transform(to, 2, x0[0], x1[0], x2[0], x3[0]);
        transform(to + 8, 2, x0[1], x1[1], x2[1], x3[1]);
        transform(to + 16, 2, x0[2], x1[2], x2[2], x3[2]);
        transform(to + 24, 2, x0[3], x1[3], x2[3], x3[3]);
        x0 += 4;
        x1 += 4;
        x2 += 4;
        x3 += 4;
        to += 2 * POSITIONS;
    }
}

#if TW_HAS_DSP

/* A word of inputs: two channels of both tiles at one position, times four filters.
 * Registers: r0: inputs; r1: stream; r2, r3: inputs of tile 0 and 1; r12, lr: weights of two filters; r4 .. r7: sums of filters
 * 0 .. 3 for tile 0; r8 .. r11: for tile 1.
 * Order: weights are already 16 bits wide, so nothing is widened: three loads of two words feed eight SMLAD. Each weight serves
 * both tiles. The next word of a position is 128 bytes further, past the other 15 positions. */
#define WORD                       \
    "ldrd r2, r3, [r0], #128\n"    \
    "ldm.w r1!, {r12, lr}\n"       \
    "smlad r4, r2, r12, r4\n"      \
    "smlad r8, r3, r12, r8\n"      \
    "smlad r5, r2, lr, r5\n"       \
    "smlad r9, r3, lr, r9\n"       \
    "ldm.w r1!, {r12, lr}\n"       \
    "smlad r6, r2, r12, r6\n"      \
    "smlad r10, r3, r12, r10\n"    \
    "smlad r7, r2, lr, r7\n"       \
    "smlad r11, r3, lr, r11\n"
#define WORD_BYTES "44" /* code of a WORD, exactly: the loop is entered in its middle */
#define WORDS_UNROLLED "4" /* a power of two; the four loops together fit a cache of 1 KB */
#define WORDS_LESS_ONE "3"

/* Adds the products of the next position to the sums. Steps r0 back from the end of the last position's inputs to the first
 * word of this one, then enters the loop at label 2 or up to three words later: PC reads as label 2, so ADD takes the offset.
 */
#define POSITION                   \
    "ldrd r2, r3, [sp, #36]\n"     \
    "add r12, r0, #8\n"            \
    "str r12, [sp, #32]\n"         \
    "sub r0, r0, r2\n"             \
    "add pc, r3\n"                 \
    "nop\n"                        \
    "2:\n"                         \
    ".rept " WORDS_UNROLLED "\n" WORD ".endr\n" \
    "ldr r2, [sp, #32]\n"          \
    "cmp r0, r2\n"                 \
    "bne.w 2b\n"

/* Stores the eight sums in tw_winograd.sums and advances the pointer. */
#define STORE_SUMS                 \
    "ldr r2, [sp, #44]\n"          \
    "stm r2!, {r4-r11}\n"          \
    "str r2, [sp, #44]\n"

/* 2 * a - b: a in r2, r3, r12, lr, the result too. */
#define TWICE_LESS(b_0, b_1, b_2, b_3) \
    "rsb r2, " b_0 ", r2, lsl #1\nrsb r3, " b_1 ", r3, lsl #1\nrsb r12, " b_2 ", r12, lsl #1\nrsb lr, " b_3 ", lr, lsl #1\n"

/* All 16 positions of four filters.
 * Stack, 84 bytes: r4 .. r11, saved here since the code needs all registers; below them [sp] eight sums; +32 the end of a
 * position's inputs; +36 bytes from that end back to the first word of the next position; +40 bytes of code that the first
 * round skips; +44 where sums go; +48 their end.
 * Order: of each row of positions, 1 and 2 are accumulated in the same registers: a after position 1, b after position 2. Then
 * 2 * a - b waits on the stack while position 0 completes b + m0; position 3 completes 2 * a - b + m3. So each row of the
 * product leaves as two columns times A, without storing its four positions. Equals products() below in plain C. */
#define PRODUCTS                        \
    "push {r4-r11}\n"                   \
    "ldm r0, {r0, r2, r4}\n"            \
    "rsb r3, r2, #0\n"                  \
    "and r3, r3, #" WORDS_LESS_ONE "\n" \
    "mov r5, #" WORD_BYTES "\n"         \
    "mul r3, r3, r5\n"                  \
    "lsl r2, r2, #7\n"                  \
    "sub r2, r2, #8\n"                  \
    "add r0, r0, r2\n"                  \
    "add r5, r4, #256\n"                \
    "push {r2-r5}\n"                    \
    "sub sp, sp, #36\n"                 \
    "ldm r1!, {r4-r7}\n"                \
    TW_FOUR_MORE                        \
    "1:\n"                              \
    POSITION                            \
    "stm sp, {r4-r11}\n"                \
    POSITION                            \
    "ldm sp, {r2, r3, r12, lr}\n"       \
    TWICE_LESS("r4", "r5", "r6", "r7")  \
    "stm sp, {r2, r3, r12, lr}\n"       \
    "ldrd r2, r3, [sp, #16]\n"          \
    "ldrd r12, lr, [sp, #24]\n"         \
    TWICE_LESS("r8", "r9", "r10", "r11") \
    "strd r2, r3, [sp, #16]\n"          \
    "strd r12, lr, [sp, #24]\n"         \
    POSITION                            \
    STORE_SUMS                          \
    "ldm sp, {r4-r11}\n"                \
    POSITION                            \
    STORE_SUMS                          \
    "ldr r3, [sp, #48]\n"               \
    "cmp r2, r3\n"                      \
    "beq 3f\n"                          \
    "movs r4, #0\n"                     \
    "movs r5, #0\n"                     \
    "movs r6, #0\n"                     \
    "movs r7, #0\n"                     \
    TW_FOUR_MORE                        \
    "b.w 1b\n"                          \
    "3:\n"                              \
    "add sp, sp, #52\n"                 \
    "pop {r4-r11}\n"

/* Computes the sums of four filters; returns the end of their stream. */
static const uint32_t *products(const tw_winograd *tiles, const uint32_t *stream)
{
    register const tw_winograd *at __asm__("r0") = tiles;
    register const uint32_t *words __asm__("r1") = stream;
    __asm__ volatile(PRODUCTS : "+r"(at), "+r"(words) : : "r2", "r3", "r12", "lr", "cc", "memory");
    return words;
}

#else

/* Adds the products of a position, whose first word of inputs is at `x`; returns the end of its stream. */
static const uint32_t *position(int32_t sums[2][4], const uint32_t *x, int32_t words, const uint32_t *stream)
{
    for (; words > 0; --words, x += 2 * POSITIONS, stream += 4) {
        for (int32_t i = 0; i < 4; ++i) {
            sums[0][i] = tw_smlad(x[0], stream[i], sums[0][i]);
            sums[1][i] = tw_smlad(x[1], stream[i], sums[1][i]);
        }
    }
    return stream;
}

static const uint32_t *products(const tw_winograd *tiles, const uint32_t *stream)
{
    const uint32_t *x = tiles->x;
    int32_t *to = tiles->sums, sums[2][4], a[2][4];
    TW_COPY(sums[0], stream, sizeof sums[0]);
    TW_COPY(sums[1], stream, sizeof sums[1]);
    stream += 4;
    for (int32_t row = 0; row < 4; ++row, x += 8, to += 16) {
        stream = position(sums, x, tiles->words, stream);
        TW_COPY(a, sums, sizeof a);
        stream = position(sums, x + 2, tiles->words, stream);
        for (int32_t i = 0; i < 8; ++i) {
            a[i / 4][i % 4] = tw_signed(2 * (uint32_t)a[i / 4][i % 4] - (uint32_t)sums[i / 4][i % 4]);
        }
        stream = position(sums, x + 4, tiles->words, stream);
        TW_COPY(to, sums, sizeof sums);
        stream = position(a, x + 6, tiles->words, stream);
        TW_COPY(to + 8, a, sizeof a);
        memset(sums, 0, sizeof sums);
    }
    return stream;
}

#endif

static inline int32_t sum_of(int32_t a, int32_t b, int32_t c) { return tw_signed((uint32_t)a + (uint32_t)b + (uint32_t)c); }
static inline int32_t difference_of(int32_t a, int32_t b, int32_t c)
{
    return tw_signed((uint32_t)a - (uint32_t)b + (uint32_t)c);
}

/* Requantises 4 * s, four times an output's sum, rounding twice as tw_requantize does. The first rounding, s * multiplier /
 * 2^31 half up, equals (floor(s * multiplier / 2^30) + 1) / 2 rounded down. If negative halves need no care, `power` includes
 * that 1 / 2. */
static inline int8_t rescale(int32_t sum, int32_t multiplier, int32_t power, int32_t zero, int32_t sign)
{
    if (sign) {
        return tw_rescale_doubled(sum >> 1, multiplier, 2 * power, zero, sign);
    }
    return (int8_t)tw_ssat8(tw_smmlar(tw_smmla(sum, multiplier, 1), power, zero));
}

/* Computes the outputs of one tile for the first `count` of four filters. */
static inline void finish(const int32_t *sums, int8_t *const to[4], int32_t first, int32_t count, const uint32_t *rescales,
                          int32_t zero, int32_t sign)
{
    int8_t *to_0 = to[0] + first, *to_1 = to[1] + first, *to_2 = to[2] + first, *to_3 = to[3] + first;
    for (int32_t i = count; i > 0; --i) {
        const int32_t multiplier = tw_signed(rescales[0]), power = tw_signed(rescales[1]);
        const int32_t left_1 = sums[0], left_2 = sums[16], left_0 = sums[32], left_3 = sums[48];
        *to_0++ = rescale(sum_of(left_1, left_2, left_0), multiplier, power, zero, sign);
        *to_2++ = rescale(difference_of(left_1, left_2, left_3), multiplier, power, zero, sign);
        const int32_t right_1 = sums[8], right_2 = sums[24], right_0 = sums[40], right_3 = sums[56];
        *to_1++ = rescale(sum_of(right_1, right_2, right_0), multiplier, power, zero, sign);
        *to_3++ = rescale(difference_of(right_1, right_2, right_3), multiplier, power, zero, sign);
        ++sums;
        rescales += 2;
    }
}

void tw_winograd_outputs(const tw_winograd *tiles, int32_t count, const uint32_t *stream, int32_t sign)
{
    for (int32_t first = 0; first < tiles->channels; first += 4) {
        const int32_t filters = tw_min(4, tiles->channels - first);
        stream = products(tiles, stream);
        for (int32_t tile = 0; tile < count; ++tile) {
            if (sign) {
                finish(tiles->sums + 4 * tile, tiles->to + 4 * tile, first, filters, stream, tiles->zero, -1);
            } else {
                finish(tiles->sums + 4 * tile, tiles->to + 4 * tile, first, filters, stream, tiles->zero, 0);
            }
        }
        stream += 8;
    }
}
