/* tw_dsp.h - instructions of the Arm DSP extension (Cortex-M4, M7, M33).
 *
 * A word is a pair of 16-bit lanes, low and high. arm_acle.h has some of the instructions, not SMMULR, SMMLAR and the rotated
 * SXTB16; so all are inline assembly. With TW_PLAIN_C they are plain C where the core lacks them: the same bytes, far slower.
 */
#ifndef TW_DSP_H
#define TW_DSP_H

#include <string.h>

#include "tw.h"

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && defined(__thumb2__)
#define TW_HAS_DSP 1
#elif defined(TW_PLAIN_C)
#define TW_HAS_DSP 0
#else
#error "no Arm DSP instructions: compile for a core with them, as with -mcpu=cortex-m4, or define TW_PLAIN_C to run slowly"
#endif

#if defined(__GNUC__)
#define TW_COPY __builtin_memcpy /* one instruction even in freestanding builds */
#else
#define TW_COPY memcpy
#endif

/* Four bytes from any address, and to one. */
static inline uint32_t tw_word(const void *at)
{
    uint32_t word;
    TW_COPY(&word, at, sizeof word);
    return word;
}

static inline void tw_put_word(void *at, uint32_t word) { TW_COPY(at, &word, sizeof word); }

/* A word, or its lanes, as signed: modulo 2^32, or 2^16. */
static inline int32_t tw_signed(uint32_t word) { return (int32_t)word; }
static inline int32_t tw_lane(uint32_t word, int high) { return (int16_t)(uint16_t)(high ? word >> 16 : word); }

static inline uint32_t tw_lanes(int32_t low, int32_t high)
{
    return ((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16;
}

/* A function of one instruction, `code` with its operands, which is `plain` in plain C. */
#if TW_HAS_DSP
#define TW_INSTRUCTION(type, name, parameters, code, operands, plain) \
    static inline type name parameters                                \
    {                                                                 \
        type r;                                                       \
        __asm__(code : "=r"(r) : operands);                           \
        return r;                                                     \
    }
#else
#define TW_INSTRUCTION(type, name, parameters, code, operands, plain) \
    static inline type name parameters { return plain; }
#endif
#define TW_X "r"(x)
#define TW_XY "r"(x), "r"(y)
#define TW_XY_SUM "r"(x), "r"(y), "r"(sum)

/* The product of a lane of x and one of y, and sums and differences of four bytes, each clamped to int8, for plain C. */
static inline int32_t tw_lane_product(uint32_t x, int i, uint32_t y, int j) { return tw_lane(x, i) * tw_lane(y, j); }

static inline uint32_t tw_bytes_added(uint32_t x, uint32_t y, int32_t sign)
{
    uint32_t r = 0;
    for (int32_t bit = 0; bit < 32; bit += 8) {
        const int32_t sum = (int8_t)(uint8_t)(x >> bit) + sign * (int8_t)(uint8_t)(y >> bit);
        r |= ((uint32_t)tw_clamp(sum, -128, 127) & 0xFFu) << bit;
    }
    return r;
}

/* Bytes 0 and 2, as signed, and bytes 1 and 3. */
TW_INSTRUCTION(uint32_t, tw_sxtb16, (uint32_t x), "sxtb16 %0, %1", TW_X,
               tw_lanes((int8_t)(uint8_t)x, (int8_t)(uint8_t)(x >> 16)))
TW_INSTRUCTION(uint32_t, tw_sxtb16_odd, (uint32_t x), "sxtb16 %0, %1, ror #8", TW_X, tw_sxtb16(x >> 8))

/* sum + x.low * y.low + x.high * y.high, modulo 2^32. */
TW_INSTRUCTION(int32_t, tw_smlad, (uint32_t x, uint32_t y, int32_t sum), "smlad %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 0, y, 0) + (uint32_t)tw_lane_product(x, 1, y, 1)))

/* sum + one lane of x * one lane of y, modulo 2^32: the low or bottom one, b, or the high or top one, t. */
TW_INSTRUCTION(int32_t, tw_smlabb, (uint32_t x, uint32_t y, int32_t sum), "smlabb %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 0, y, 0)))
TW_INSTRUCTION(int32_t, tw_smlatt, (uint32_t x, uint32_t y, int32_t sum), "smlatt %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 1, y, 1)))
TW_INSTRUCTION(int32_t, tw_smlabt, (uint32_t x, uint32_t y, int32_t sum), "smlabt %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 0, y, 1)))
TW_INSTRUCTION(int32_t, tw_smlatb, (uint32_t x, uint32_t y, int32_t sum), "smlatb %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 1, y, 0)))

/* The product of both low lanes, b for bottom, or of both high ones, t for top. */
TW_INSTRUCTION(int32_t, tw_smulbb, (uint32_t x, uint32_t y), "smulbb %0, %1, %2", TW_XY, tw_lane_product(x, 0, y, 0))
TW_INSTRUCTION(int32_t, tw_smultt, (uint32_t x, uint32_t y), "smultt %0, %1, %2", TW_XY, tw_lane_product(x, 1, y, 1))

/* Sums and differences of both lanes, modulo 2^16. */
TW_INSTRUCTION(uint32_t, tw_sadd16, (uint32_t x, uint32_t y), "sadd16 %0, %1, %2", TW_XY,
               tw_lanes(tw_lane(x, 0) + tw_lane(y, 0), tw_lane(x, 1) + tw_lane(y, 1)))
TW_INSTRUCTION(uint32_t, tw_ssub16, (uint32_t x, uint32_t y), "ssub16 %0, %1, %2", TW_XY,
               tw_lanes(tw_lane(x, 0) - tw_lane(y, 0), tw_lane(x, 1) - tw_lane(y, 1)))

/* The low lanes of x and y, and the high ones. */
TW_INSTRUCTION(uint32_t, tw_pkhbt, (uint32_t x, uint32_t y), "pkhbt %0, %1, %2, lsl #16", TW_XY, (x & 0xFFFFu) | y << 16)
TW_INSTRUCTION(uint32_t, tw_pkhtb, (uint32_t x, uint32_t y), "pkhtb %0, %2, %1, asr #16", TW_XY, x >> 16 | (y & 0xFFFF0000u))

/* Sums and differences of four bytes, each clamped to int8. */
TW_INSTRUCTION(uint32_t, tw_qadd8, (uint32_t x, uint32_t y), "qadd8 %0, %1, %2", TW_XY, tw_bytes_added(x, y, 1))
TW_INSTRUCTION(uint32_t, tw_qsub8, (uint32_t x, uint32_t y), "qsub8 %0, %1, %2", TW_XY, tw_bytes_added(x, y, -1))

/* x * y / 2^32, rounded half up. */
TW_INSTRUCTION(int32_t, tw_smmulr, (int32_t x, int32_t y), "smmulr %0, %1, %2", TW_XY,
               (int32_t)(((int64_t)x * y + ((int64_t)1 << 31)) >> 32))

/* sum + x * y / 2^32, rounded half up, or down, modulo 2^32. */
TW_INSTRUCTION(int32_t, tw_smmlar, (int32_t x, int32_t y, int32_t sum), "smmlar %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_smmulr(x, y)))
TW_INSTRUCTION(int32_t, tw_smmla, (int32_t x, int32_t y, int32_t sum), "smmla %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)(int32_t)(((int64_t)x * y) >> 32)))

/* Clamped to int8. */
TW_INSTRUCTION(int32_t, tw_ssat8, (int32_t x), "ssat %0, #8, %1", TW_X, tw_clamp(x, -128, 127))

/* x * (high * 2^32 + low) / 2^64, rounded down. */
static inline uint32_t tw_high_product(uint32_t x, uint32_t high, uint32_t low)
{
#if TW_HAS_DSP
    uint32_t r, rest;
    __asm__("umull %0, %1, %2, %4\nmov %0, #0\numaal %1, %0, %2, %3" : "=&r"(r), "=&r"(rest) : "r"(x), "r"(high), "r"(low));
    return r;
#else
    return (uint32_t)(((uint64_t)x * high + (((uint64_t)x * low) >> 32)) >> 32);
#endif
}

/* The output of a sum: `doubled` / 2 * multiplier / 2^31 * power / 2^32 + zero, rounded twice as tw_requantize does; power is
 * 2^(32 - exponent), exponent 2 .. 31. `sign` is -1 where a negative half must go away from zero, 0 where it need not since it
 * ends at the clamp either way. */
static inline int8_t tw_rescale_doubled(int32_t doubled, int32_t multiplier, int32_t power, int32_t zero, int32_t sign)
{
    const int32_t high = tw_smmulr(doubled, multiplier);
    return (int8_t)tw_ssat8(tw_smmlar(high + ((high >> 31) & sign), power, zero));
}

/* Runs assembly that takes a pointer in r0 and needs all registers, more than compilers give; so it saves r4 .. r11 itself. */
#define TW_RUN(code, pointer)                                                                   \
    do {                                                                                        \
        register const void *given __asm__("r0") = (pointer);                                   \
        __asm__ volatile(code : "+r"(given) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory"); \
    } while (0)

/* In assembly, between the two roundings: what `sign` of tw_rescale_doubled does where it is -1, and where it is 0. */
#define TW_FIX(sum) "add " sum ", " sum ", " sum ", asr #31\n"
#define TW_NO_FIX(sum)

/* In assembly, the output of a sum that is rescaled to it but for the second rounding; to four more sums those of r4 .. r7. */
#define TW_OUTPUT(sum, fix, power, zero) \
    fix(sum) "smmlar " sum ", " sum ", " power ", " zero "\nssat " sum ", #8, " sum "\n"
#define TW_FOUR_MORE "mov r8, r4\nmov r9, r5\nmov r10, r6\nmov r11, r7\n"

/* Two int8 weights in a 16-bit lane, w0 + 256 * w1: adds the products of two inputs with two filters, of which the second sum
 * becomes its own times 256 plus the first. */
static inline void tw_add_two_s8(uint32_t x, uint32_t weights, int32_t *sums)
{
    sums[0] = tw_smlad(x, tw_sxtb16(weights), sums[0]);
    sums[1] = tw_smlad(x, weights, sums[1]);
}

/* Sum i of some such pairs; if it is a second one, times 2^left. */
TW_INLINE int32_t tw_sum_s8(const int32_t *sums, int32_t i, int32_t left)
{
    return i & 1 ? tw_signed((uint32_t)sums[i] - (uint32_t)sums[i - 1]) >> (8 - left) : sums[i];
}

/* Clamps `count` bytes. */
void tw_clamp_bytes(int8_t *to, int32_t count, int32_t low, int32_t high);

/* The same, with no call where the limits are those of int8. */
static inline void tw_clamp_all(int8_t *to, int32_t count, int32_t low, int32_t high)
{
    if (low > -128 || high < 127) {
        tw_clamp_bytes(to, count, low, high);
    }
}

#endif
