/* tw_dsp.h - instructions of the Arm DSP extension (Cortex-M4, M7, M33) as functions, and pieces that the kernels' assembly
 * shares.
 *
 * A word is two lanes of 16 bits, low and high. All functions are inline assembly, since arm_acle.h lacks SMMULR, SMMLAR and
 * the rotated SXTB16. With TW_PLAIN_C they are plain C on cores without the extension: the same results, far slower.
 */
#ifndef TW_DSP_H
#define TW_DSP_H

#include "tw_word.h"

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && defined(__thumb2__)
#define TW_HAS_DSP 1
#elif defined(TW_PLAIN_C)
#define TW_HAS_DSP 0
#else
#error "no Arm DSP instructions: compile for a core with them, as with -mcpu=cortex-m4, or define TW_PLAIN_C (in Zephyr CONFIG_TINYWEAVE_..._PLAIN_C=y) to run slowly"
#endif

/* A word, or one of its lanes, as a signed number; two numbers as the lanes of a word, modulo 2^16. */
static inline int32_t tw_signed(uint32_t word) { return (int32_t)word; }
static inline int32_t tw_lane(uint32_t word, int high) { return (int16_t)(uint16_t)(high ? word >> 16 : word); }

static inline uint32_t tw_lanes(int32_t low, int32_t high)
{
    return ((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16;
}

/* Defines a function that is one instruction, `code` with its operands; in plain C it returns `plain`. */
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

/* For plain C: the product of a lane of x and a lane of y; four bytes x + sign * y, each clamped to int8. */
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

/* For plain C: the difference of the unsigned bytes of x and y from a bit on, without its sign. */
static inline int32_t tw_byte_distance(uint32_t x, uint32_t y, int32_t bit)
{
    const int32_t less = (int32_t)(x >> bit & 0xFFu) - (int32_t)(y >> bit & 0xFFu);
    return less < 0 ? -less : less;
}

/* Bytes 0 and 2, or 1 and 3, sign-extended to lanes. */
TW_INSTRUCTION(uint32_t, tw_sxtb16, (uint32_t x), "sxtb16 %0, %1", TW_X,
               tw_lanes((int8_t)(uint8_t)x, (int8_t)(uint8_t)(x >> 16)))
TW_INSTRUCTION(uint32_t, tw_sxtb16_odd, (uint32_t x), "sxtb16 %0, %1, ror #8", TW_X, tw_sxtb16(x >> 8))

/* x + bytes 0 and 2, or 1 and 3, of y as lanes, modulo 2^16. */
TW_INSTRUCTION(uint32_t, tw_sxtab16, (uint32_t x, uint32_t y), "sxtab16 %0, %1, %2", TW_XY,
               tw_lanes(tw_lane(x, 0) + (int8_t)(uint8_t)y, tw_lane(x, 1) + (int8_t)(uint8_t)(y >> 16)))
TW_INSTRUCTION(uint32_t, tw_sxtab16_odd, (uint32_t x, uint32_t y), "sxtab16 %0, %1, %2, ror #8", TW_XY, tw_sxtab16(x, y >> 8))

/* sum + x.low * y.low + x.high * y.high, modulo 2^32. */
TW_INSTRUCTION(int32_t, tw_smlad, (uint32_t x, uint32_t y, int32_t sum), "smlad %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 0, y, 0) + (uint32_t)tw_lane_product(x, 1, y, 1)))

/* sum + one lane of x * one lane of y, modulo 2^32; b, bottom: the low lane; t, top: the high lane. */
TW_INSTRUCTION(int32_t, tw_smlabb, (uint32_t x, uint32_t y, int32_t sum), "smlabb %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 0, y, 0)))
TW_INSTRUCTION(int32_t, tw_smlatt, (uint32_t x, uint32_t y, int32_t sum), "smlatt %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 1, y, 1)))
TW_INSTRUCTION(int32_t, tw_smlabt, (uint32_t x, uint32_t y, int32_t sum), "smlabt %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 0, y, 1)))
TW_INSTRUCTION(int32_t, tw_smlatb, (uint32_t x, uint32_t y, int32_t sum), "smlatb %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_lane_product(x, 1, y, 0)))

/* sum + (x * the low lane of y) / 2^16, rounded down, modulo 2^32. */
TW_INSTRUCTION(int32_t, tw_smlawb, (int32_t x, uint32_t y, int32_t sum), "smlawb %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)(int32_t)(((int64_t)x * tw_lane(y, 0)) >> 16)))

/* sum + the differences of the four bytes of x and y, as unsigned numbers without their signs. */
TW_INSTRUCTION(int32_t, tw_usada8, (uint32_t x, uint32_t y, int32_t sum), "usada8 %0, %1, %2, %3", TW_XY_SUM,
               sum + tw_byte_distance(x, y, 0) + tw_byte_distance(x, y, 8) + tw_byte_distance(x, y, 16) + tw_byte_distance(x, y, 24))

/* The product of both low lanes, or of both high lanes. */
TW_INSTRUCTION(int32_t, tw_smulbb, (uint32_t x, uint32_t y), "smulbb %0, %1, %2", TW_XY, tw_lane_product(x, 0, y, 0))
TW_INSTRUCTION(int32_t, tw_smultt, (uint32_t x, uint32_t y), "smultt %0, %1, %2", TW_XY, tw_lane_product(x, 1, y, 1))

/* x + y or x - y of both lanes, modulo 2^16. */
TW_INSTRUCTION(uint32_t, tw_sadd16, (uint32_t x, uint32_t y), "sadd16 %0, %1, %2", TW_XY,
               tw_lanes(tw_lane(x, 0) + tw_lane(y, 0), tw_lane(x, 1) + tw_lane(y, 1)))
TW_INSTRUCTION(uint32_t, tw_ssub16, (uint32_t x, uint32_t y), "ssub16 %0, %1, %2", TW_XY,
               tw_lanes(tw_lane(x, 0) - tw_lane(y, 0), tw_lane(x, 1) - tw_lane(y, 1)))

/* The low lanes of x and y as a word, or their high lanes. */
TW_INSTRUCTION(uint32_t, tw_pkhbt, (uint32_t x, uint32_t y), "pkhbt %0, %1, %2, lsl #16", TW_XY, (x & 0xFFFFu) | y << 16)
TW_INSTRUCTION(uint32_t, tw_pkhtb, (uint32_t x, uint32_t y), "pkhtb %0, %2, %1, asr #16", TW_XY, x >> 16 | (y & 0xFFFF0000u))

/* x + y or x - y of four bytes, each clamped to int8. */
TW_INSTRUCTION(uint32_t, tw_qadd8, (uint32_t x, uint32_t y), "qadd8 %0, %1, %2", TW_XY, tw_bytes_added(x, y, 1))
TW_INSTRUCTION(uint32_t, tw_qsub8, (uint32_t x, uint32_t y), "qsub8 %0, %1, %2", TW_XY, tw_bytes_added(x, y, -1))

/* x * y / 2^32, rounded half up. */
TW_INSTRUCTION(int32_t, tw_smmulr, (int32_t x, int32_t y), "smmulr %0, %1, %2", TW_XY,
               (int32_t)(((int64_t)x * y + ((int64_t)1 << 31)) >> 32))

/* sum + x * y / 2^32 modulo 2^32; SMMLAR rounds half up, SMMLA rounds down. */
TW_INSTRUCTION(int32_t, tw_smmlar, (int32_t x, int32_t y, int32_t sum), "smmlar %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)tw_smmulr(x, y)))
TW_INSTRUCTION(int32_t, tw_smmla, (int32_t x, int32_t y, int32_t sum), "smmla %0, %1, %2, %3", TW_XY_SUM,
               tw_signed((uint32_t)sum + (uint32_t)(int32_t)(((int64_t)x * y) >> 32)))

/* x clamped to int8 or to int16. */
TW_INSTRUCTION(int32_t, tw_ssat8, (int32_t x), "ssat %0, #8, %1", TW_X, tw_clamp(x, -128, 127))
TW_INSTRUCTION(int32_t, tw_ssat16, (int32_t x), "ssat %0, #16, %1", TW_X, tw_clamp(x, -32768, 32767))

/* The larger of each byte of x and y, as int8. SSUB8 sets a flag for each byte of x that is not less than that of y, and SEL takes
 * these bytes of x and the others of y. */
static inline uint32_t tw_larger_bytes(uint32_t x, uint32_t y)
{
#if TW_HAS_DSP
    uint32_t r;
    __asm__("ssub8 %0, %1, %2\n"
            "sel %0, %1, %2" : "=&r"(r) : "r"(x), "r"(y) : "cc");
    return r;
#else
    uint32_t r = 0;
    for (int32_t bit = 0; bit < 32; bit += 8) {
        r |= ((uint32_t)tw_max((int8_t)(uint8_t)(x >> bit), (int8_t)(uint8_t)(y >> bit)) & 0xFFu) << bit;
    }
    return r;
#endif
}

/* The larger of each lane of 16 bits of x and y, as int16. */
static inline uint32_t tw_larger_lanes(uint32_t x, uint32_t y)
{
#if TW_HAS_DSP
    uint32_t r;
    __asm__("ssub16 %0, %1, %2\n"
            "sel %0, %1, %2" : "=&r"(r) : "r"(x), "r"(y) : "cc");
    return r;
#else
    return tw_lanes(tw_max(tw_lane(x, 0), tw_lane(y, 0)), tw_max(tw_lane(x, 1), tw_lane(y, 1)));
#endif
}

/* x * (high * 2^32 + low) / 2^64, rounded down. UMULL gives x * low, of which UMAAL adds the high word to x * high. r: the
 * result; rest: the low word, not used. No stack. */
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

/* Requantises a sum, rounding twice as tw_requantize does: doubled / 2 * multiplier / 2^31 * power / 2^32 + zero, clamped to
 * int8. power: 2^(32 - exponent), exponent 2 .. 31. sign: -1 to round negative halves away from zero; 0 if all negative outputs
 * are clamped anyway. */
static inline int8_t tw_rescale_doubled(int32_t doubled, int32_t multiplier, int32_t power, int32_t zero, int32_t sign)
{
    const int32_t high = tw_smmulr(doubled, multiplier);
    return (int8_t)tw_ssat8(tw_smmlar(high + ((high >> 31) & sign), power, zero));
}

/* tw_requantize for a multiplier of at least 2^30 and a shift of -1 - right. twice: 2 * multiplier - 2^32; SMMLAR adds x to the
 * product with it, which gives the high product of x and the multiplier. */
static inline int32_t tw_requantize_right(int32_t x, int32_t twice, int32_t right)
{
    const int32_t high = tw_smmlar(x, twice, x);
    return (((high + (high >> 31)) >> right) + 1) >> 1;
}

/* Runs assembly that takes a pointer in r0. The code itself saves r4 .. r11: it needs all registers, more than compilers give
 * to an asm statement. */
#define TW_RUN(code, pointer)                                                                   \
    do {                                                                                        \
        register const void *given __asm__("r0") = (pointer);                                   \
        __asm__ volatile(code : "+r"(given) : : "r1", "r2", "r3", "r12", "lr", "cc", "memory"); \
    } while (0)

/* Assembly between the two roundings, as `sign` of tw_rescale_doubled: TW_FIX subtracts 1 from a negative number, so that the
 * next rounding, half up, takes negative halves away from zero; TW_NO_FIX does nothing. */
#define TW_FIX(sum) "add " sum ", " sum ", " sum ", asr #31\n"
#define TW_NO_FIX(sum)

/* Assembly: the second rounding, the zero point and the clamp to int8 of a sum times its multiplier. TW_FOUR_MORE copies r4 ..
 * r7 to r8 .. r11: initial sums for a second output. */
#define TW_OUTPUT(sum, fix, power, zero) \
    fix(sum) "smmlar " sum ", " sum ", " power ", " zero "\nssat " sum ", #8, " sum "\n"
#define TW_FOUR_MORE "mov r8, r4\nmov r9, r5\nmov r10, r6\nmov r11, r7\n"

/* Adds the products of two inputs with two filters, whose weights share a lane as w0 + 256 * w1. sums[0] accumulates s0,
 * sums[1] accumulates s0 + 256 * s1. */
static inline void tw_add_two_s8(uint32_t x, uint32_t weights, int32_t *sums)
{
    sums[0] = tw_smlad(x, tw_sxtb16(weights), sums[0]);
    sums[1] = tw_smlad(x, weights, sums[1]);
}

/* Filter i's sum from such pairs; an odd filter's sum times 2^left. */
TW_INLINE int32_t tw_sum_s8(const int32_t *sums, int32_t i, int32_t left)
{
    return i & 1 ? tw_signed((uint32_t)sums[i] - (uint32_t)sums[i - 1]) >> (8 - left) : sums[i];
}

/* Clamps `count` bytes to [low, high]. */
void tw_clamp_bytes(int8_t *to, int32_t count, int32_t low, int32_t high);

/* The same, without a call if the limits are those of int8. */
static inline void tw_clamp_all(int8_t *to, int32_t count, int32_t low, int32_t high)
{
    if (low > -128 || high < 127) {
        tw_clamp_bytes(to, count, low, high);
    }
}

#endif
