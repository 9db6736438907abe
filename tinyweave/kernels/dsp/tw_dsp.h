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

#if TW_HAS_DSP

/* Bytes 0 and 2, as signed. */
static inline uint32_t tw_sxtb16(uint32_t x)
{
    uint32_t r;
    __asm__("sxtb16 %0, %1" : "=r"(r) : "r"(x));
    return r;
}

/* Bytes 1 and 3, as signed. */
static inline uint32_t tw_sxtb16_odd(uint32_t x)
{
    uint32_t r;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(r) : "r"(x));
    return r;
}

/* sum + x.low * y.low + x.high * y.high, modulo 2^32. */
static inline int32_t tw_smlad(uint32_t x, uint32_t y, int32_t sum)
{
    int32_t r;
    __asm__("smlad %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(sum));
    return r;
}

/* sum + one lane of x * one lane of y, modulo 2^32: the low or bottom one, b, or the high or top one, t. */
static inline int32_t tw_smlabt(uint32_t x, uint32_t y, int32_t sum)
{
    int32_t r;
    __asm__("smlabt %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(sum));
    return r;
}

static inline int32_t tw_smlatb(uint32_t x, uint32_t y, int32_t sum)
{
    int32_t r;
    __asm__("smlatb %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(sum));
    return r;
}

/* The product of both low lanes, b for bottom, or of both high ones, t for top. */
static inline int32_t tw_smulbb(uint32_t x, uint32_t y)
{
    int32_t r;
    __asm__("smulbb %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

static inline int32_t tw_smultt(uint32_t x, uint32_t y)
{
    int32_t r;
    __asm__("smultt %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

/* Sums and differences of both lanes, modulo 2^16. */
static inline uint32_t tw_sadd16(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("sadd16 %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

static inline uint32_t tw_ssub16(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("ssub16 %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

/* The low lanes of x and y, and the high ones. */
static inline uint32_t tw_pkhbt(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

static inline uint32_t tw_pkhtb(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("pkhtb %0, %2, %1, asr #16" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

/* Sums and differences of four bytes, each clamped to int8. */
static inline uint32_t tw_qadd8(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("qadd8 %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

static inline uint32_t tw_qsub8(uint32_t x, uint32_t y)
{
    uint32_t r;
    __asm__("qsub8 %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

/* x * y / 2^32, rounded half up. */
static inline int32_t tw_smmulr(int32_t x, int32_t y)
{
    int32_t r;
    __asm__("smmulr %0, %1, %2" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

/* sum + x * y / 2^32, rounded half up, modulo 2^32. */
static inline int32_t tw_smmlar(int32_t x, int32_t y, int32_t sum)
{
    int32_t r;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(sum));
    return r;
}

/* sum + x * y / 2^32, rounded down, modulo 2^32. */
static inline int32_t tw_smmla(int32_t x, int32_t y, int32_t sum)
{
    int32_t r;
    __asm__("smmla %0, %1, %2, %3" : "=r"(r) : "r"(x), "r"(y), "r"(sum));
    return r;
}

/* x * (high * 2^32 + low) / 2^64, rounded down. */
static inline uint32_t tw_high_product(uint32_t x, uint32_t high, uint32_t low)
{
    uint32_t r, rest;
    __asm__("umull %0, %1, %2, %4\nmov %0, #0\numaal %1, %0, %2, %3" : "=&r"(r), "=&r"(rest) : "r"(x), "r"(high), "r"(low));
    return r;
}

/* Clamped to int8. */
static inline int32_t tw_ssat8(int32_t x)
{
    int32_t r;
    __asm__("ssat %0, #8, %1" : "=r"(r) : "r"(x));
    return r;
}

#else

static inline uint32_t tw_sxtb16(uint32_t x)
{
    return tw_lanes((int8_t)(uint8_t)x, (int8_t)(uint8_t)(x >> 16));
}

static inline uint32_t tw_sxtb16_odd(uint32_t x)
{
    return tw_sxtb16(x >> 8);
}

static inline int32_t tw_smlad(uint32_t x, uint32_t y, int32_t sum)
{
    const uint32_t low = (uint32_t)(tw_lane(x, 0) * tw_lane(y, 0)), high = (uint32_t)(tw_lane(x, 1) * tw_lane(y, 1));
    return tw_signed((uint32_t)sum + low + high);
}

static inline int32_t tw_smlabt(uint32_t x, uint32_t y, int32_t sum)
{
    return tw_signed((uint32_t)sum + (uint32_t)(tw_lane(x, 0) * tw_lane(y, 1)));
}

static inline int32_t tw_smlatb(uint32_t x, uint32_t y, int32_t sum)
{
    return tw_signed((uint32_t)sum + (uint32_t)(tw_lane(x, 1) * tw_lane(y, 0)));
}

static inline int32_t tw_smulbb(uint32_t x, uint32_t y) { return tw_lane(x, 0) * tw_lane(y, 0); }
static inline int32_t tw_smultt(uint32_t x, uint32_t y) { return tw_lane(x, 1) * tw_lane(y, 1); }

static inline uint32_t tw_sadd16(uint32_t x, uint32_t y)
{
    return tw_lanes(tw_lane(x, 0) + tw_lane(y, 0), tw_lane(x, 1) + tw_lane(y, 1));
}

static inline uint32_t tw_ssub16(uint32_t x, uint32_t y)
{
    return tw_lanes(tw_lane(x, 0) - tw_lane(y, 0), tw_lane(x, 1) - tw_lane(y, 1));
}

static inline uint32_t tw_pkhbt(uint32_t x, uint32_t y) { return (x & 0xFFFFu) | y << 16; }
static inline uint32_t tw_pkhtb(uint32_t x, uint32_t y) { return x >> 16 | (y & 0xFFFF0000u); }

static inline uint32_t tw_bytes_added(uint32_t x, uint32_t y, int32_t sign)
{
    uint32_t r = 0;
    for (int32_t bit = 0; bit < 32; bit += 8) {
        const int32_t sum = (int8_t)(uint8_t)(x >> bit) + sign * (int8_t)(uint8_t)(y >> bit);
        r |= ((uint32_t)tw_clamp(sum, -128, 127) & 0xFFu) << bit;
    }
    return r;
}

static inline uint32_t tw_qadd8(uint32_t x, uint32_t y) { return tw_bytes_added(x, y, 1); }
static inline uint32_t tw_qsub8(uint32_t x, uint32_t y) { return tw_bytes_added(x, y, -1); }

static inline int32_t tw_smmulr(int32_t x, int32_t y)
{
    return (int32_t)(((int64_t)x * y + ((int64_t)1 << 31)) >> 32);
}

static inline int32_t tw_smmlar(int32_t x, int32_t y, int32_t sum)
{
    return tw_signed((uint32_t)sum + (uint32_t)tw_smmulr(x, y));
}

static inline int32_t tw_smmla(int32_t x, int32_t y, int32_t sum)
{
    return tw_signed((uint32_t)sum + (uint32_t)(int32_t)(((int64_t)x * y) >> 32));
}

static inline uint32_t tw_high_product(uint32_t x, uint32_t high, uint32_t low)
{
    return (uint32_t)(((uint64_t)x * high + (((uint64_t)x * low) >> 32)) >> 32);
}

static inline int32_t tw_ssat8(int32_t x) { return tw_clamp(x, -128, 127); }

#endif

/* The output of a sum: `doubled` / 2 * multiplier / 2^31 * power / 2^32 + zero, rounded twice as tw_requantize does; power is
 * 2^(32 - exponent), exponent 2 .. 31. `sign` is -1 where a negative half must go away from zero, 0 where it need not since it
 * ends at the clamp either way. */
static inline int8_t tw_rescale_doubled(int32_t doubled, int32_t multiplier, int32_t power, int32_t zero, int32_t sign)
{
    const int32_t high = tw_smmulr(doubled, multiplier);
    return (int8_t)tw_ssat8(tw_smmlar(high + ((high >> 31) & sign), power, zero));
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
