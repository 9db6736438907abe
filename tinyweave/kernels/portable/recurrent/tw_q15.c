/* tw_q15.c - logistic and tanh of 16-bit fixed-point numbers, with gemmlowp's arithmetic, so that the bytes are TFLite's. With the
 * Arm DSP extension, products with constants are one instruction. */
#include "tw_q15.h"

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__) && defined(__thumb2__)

/* A constant that several instructions have as an operand, in a register: MLA then multiplies and adds. */
static inline int32_t in_register(int32_t x)
{
    __asm__("" : "+r"(x));
    return x;
}

/* sum + a * b / 2^15, the product rounded half up; -2^14 <= b < 2^14. SMMLAR divides by 2^32 instead. */
static inline int32_t add_product(int32_t sum, int32_t a, int32_t b)
{
    int32_t r;
    __asm__("smmlar %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b * (1 << 17)), "r"(sum));
    return r;
}

/* result * exp(-quarters / 4), for quarters < 64, with a rounding per bit of `quarters`. A shift puts a bit into the flag N (mi),
 * and the next one into C (cs). The first two powers are above 1/2: they are the result plus its product with power - 1. */
static inline int32_t exp_steps(int32_t result, int32_t quarters)
{
    int32_t t;
    __asm__("lsls %[t], %[q], #31\n"
            "it mi\n smmlarmi %[r], %[r], %[p_0], %[r]\n"
            "it cs\n smmlarcs %[r], %[r], %[p_1], %[r]\n"
            "lsls %[t], %[q], #29\n"
            "it mi\n smmulrmi %[r], %[r], %[p_2]\n"
            "it cs\n smmulrcs %[r], %[r], %[p_3]\n"
            "lsls %[t], %[q], #27\n"
            "it mi\n smmulrmi %[r], %[r], %[p_4]\n"
            "it cs\n smmulrcs %[r], %[r], %[p_5]\n"
            : [r] "+r"(result), [t] "=&r"(t)
            : [q] "r"(quarters), [p_0] "r"((25520 - 32768) * (1 << 17)), [p_1] "r"((19875 - 32768) * (1 << 17)),
              [p_2] "r"(12055 << 17), [p_3] "r"(4435 << 17), [p_4] "r"(600 << 17), [p_5] "r"(11 << 17)
            : "cc");
    return result;
}

#else

static inline int32_t in_register(int32_t x) { return x; }

static inline int32_t add_product(int32_t sum, int32_t a, int32_t b) { return sum + tw_high_mul16(a, b); }

/* result * exp(-2^(k - 2)) if bit k of a number of quarters is set. */
static inline int32_t exp_step(int32_t result, int32_t quarters, int32_t k, int32_t power)
{
    return quarters & (1 << k) ? tw_high_mul16(result, power) : result;
}

static inline int32_t exp_steps(int32_t result, int32_t quarters)
{
    /* not a loop, which would take as many instructions as its multiplications */
    result = exp_step(result, quarters, 0, 25520);
    result = exp_step(result, quarters, 1, 19875);
    result = exp_step(result, quarters, 2, 12055);
    result = exp_step(result, quarters, 3, 4435);
    result = exp_step(result, quarters, 4, 600);
    return exp_step(result, quarters, 5, 11);
}

#endif

/* a * b / 2^15, rounded half up; half: 2^14. */
static inline int32_t product(int32_t a, int32_t b, int32_t half) { return (a * b + half) >> 15; }

/* exp(-x) in Q0.15 for x > 0 in units of 2^-15; half: 2^14. */
static inline int32_t exp_of_negative(int32_t x, int32_t half)
{
    const int32_t quarters = (x - 1) >> 13; /* x = quarters / 4 + 1/8 - a; a in [-1/8, 1/8) */
    /* a Taylor series around -1/8; no number that is halved is negative, so adding a half before the shift rounds it */
    const int32_t exp_minus_one_eighth = 28918, one_third = 10923;
    const int32_t a = (1 << 12) - 1 - ((x - 1) & ((1 << 13) - 1));
    const int32_t a2 = product(a, a, half);
    const int32_t a3 = product(a2, a, half);
    const int32_t a4_over_4 = (product(a2, a2, half) + 2) >> 2;
    const int32_t sum = a + ((add_product(a2, a4_over_4 + a3, one_third) + 1) >> 1);
    const int32_t result = exp_steps(add_product(exp_minus_one_eighth + sum, sum, exp_minus_one_eighth - 32768), quarters);
    return quarters < 64 ? result : 0; /* exp(-16) is below 2^-16 */
}

/* A Newton step from x towards 1 / half_denominator in Q2.13; less_one: 2^14 - 2^28. gemmlowp saturates the correction to int16,
 * which no half denominator from 1/2 to 1 needs. */
static inline int32_t newton_step(int32_t half_denominator, int32_t x, int32_t half, int32_t less_one)
{
    const int32_t error = product(half_denominator, x, less_one); /* half_denominator * x - 1 */
    return x + tw_shift_left((half - x * error) >> 15, 2);
}

int32_t tw_reciprocal_q13(int32_t x)
{
    if (x == 0) {
        return 1 << 13;
    }
    const int32_t half = in_register(1 << 14), less_one = in_register((1 << 14) - (1 << 28));
    const int32_t half_denominator = (exp_of_negative(x, half) + 32768) >> 1;
    int32_t result = add_product(23130, half_denominator, -15420); /* 48/17 - 32/17 d */
    result = newton_step(half_denominator, result, half, less_one);
    result = newton_step(half_denominator, result, half, less_one);
    return newton_step(half_denominator, result, half, less_one);
}
