/* tw_dot.c - dot products of int8 inputs and weights, portable C, with assembly for ARMv6-M (Cortex-M0, M0+).
 *
 * Layers: conv_2d, fully_connected and transpose_conv with int8 weights. Weights: [filter][input].
 * Cost of the assembly: 17 instructions per 4 MACs. Fitted for tw_conv_2d_s8 (layer_cycles.json): 5.9
 * cycles per MAC on a Cortex-M0+.
 */
#include "tw_dot.h"

#if defined(__ARM_ARCH_6M__) && defined(__GNUC__)

/* Arguments of the assembly: ends of the weights of four filters, -count, end of the inputs, zero point, sums. */
typedef struct { const int8_t *weights[4]; int32_t less; const int8_t *x; int32_t zero; int32_t *sums; } tw_dot_frame;

/* One input times four filters per round.
 * Registers: r0: end of the inputs; r1 .. r4: ends of the weights; r5: index, from -count up to 0; r6: an input less the zero
 * point; r7: a product; r8 .. r11: sums; r12: zero point. ARMv6-M multiplies in r0 .. r7 only but adds to high registers, so
 * sums stay there.
 * Stack, 36 bytes: r4 .. r7, r8 .. r11, and the pointer to the sums, four words past their begin.
 * Order: one index serves five pointers, so no pointer is incremented; a negative index ends the loop without a comparison.
 * Equals tw_dot4 below in plain C, for count > 0. */
#define PRODUCT(weights, sum) "ldrsb r7, [" weights ", r5]\n" "muls r7, r6\n" "add " sum ", r7\n"
#define DOT                                             \
    "push {r4-r7}\n"                                    \
    "mov r4, r8\n mov r5, r9\n mov r6, r10\n mov r7, r11\n" \
    "push {r4-r7}\n"                                    \
    "ldr r7, [r0, #24]\n"                               \
    "mov r12, r7\n"                                     \
    "ldr r6, [r0, #28]\n"                               \
    "ldm r6!, {r1-r4}\n"                                \
    "mov r8, r1\n mov r9, r2\n mov r10, r3\n mov r11, r4\n" \
    "push {r6}\n"                                       \
    "ldm r0!, {r1-r5}\n"                                \
    "ldr r0, [r0]\n"                                    \
    "1:\n"                                              \
    "ldrsb r6, [r0, r5]\n"                              \
    "mov r7, r12\n"                                     \
    "subs r6, r6, r7\n"                                 \
    PRODUCT("r1", "r8") PRODUCT("r2", "r9") PRODUCT("r3", "r10") PRODUCT("r4", "r11") \
    "adds r5, #1\n"                                     \
    "bne 1b\n"                                          \
    "pop {r0}\n"                                        \
    "subs r0, #16\n"                                    \
    "mov r1, r8\n mov r2, r9\n mov r3, r10\n mov r4, r11\n" \
    "stm r0!, {r1-r4}\n"                                \
    "pop {r4-r7}\n"                                     \
    "mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n" \
    "pop {r4-r7}\n"

void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums)
{
    if (count <= 0) {
        return;
    }
    const int8_t *const end = weights + count;
    const tw_dot_frame frame = {{end, end + filter, end + 2 * filter, end + 3 * filter}, -count, x + count, zero, sums};
    register const tw_dot_frame *at __asm__("r0") = &frame;
    __asm__ volatile(".syntax unified\n" DOT : "+r"(at) : : "r1", "r2", "r3", "r12", "cc", "memory");
}

#endif

/* Adds the products of input i with two to four filters. */
#define PRODUCTS_OF(i)                            \
    do {                                          \
        const int32_t value = x[i] - zero;        \
        sum0 += value * w0[i];                    \
        sum1 += value * w1[i];                    \
        sum2 += filters >= 3 ? value * w2[i] : 0; \
        sum3 += filters == 4 ? value * w3[i] : 0; \
    } while (0)

TW_INLINE void dot(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums, int32_t filters)
{
    int32_t sum0 = sums[0], sum1 = sums[1], sum2 = filters >= 3 ? sums[2] : 0, sum3 = filters == 4 ? sums[3] : 0, i = 0;
    const int8_t *w0 = weights, *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
#ifdef __riscv /* two inputs per round, as loads do not increment their address */
    for (; i < (count & ~1); i += 2) {
        PRODUCTS_OF(i);
        PRODUCTS_OF(i + 1);
    }
#endif
    for (; i < count; ++i) {
        PRODUCTS_OF(i);
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[filters == 2 ? 1 : 2] = filters == 2 ? sum1 : sum2; /* of two or three filters, the last sum again */
    sums[filters - 1] = filters == 4 ? sum3 : filters == 3 ? sum2 : sum1;
}

#ifdef __riscv
void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums)
{
    dot(x, zero, weights, filter, count, sums, 4);
}
#elif !defined(DOT) /* the same, which clang spills less */
void tw_dot4(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t *sums)
{
    int32_t sum0 = sums[0], sum1 = sums[1], sum2 = sums[2], sum3 = sums[3];
    const int8_t *w0 = weights, *w1 = w0 + filter, *w2 = w1 + filter, *w3 = w2 + filter;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t value = x[i] - zero;
        sum0 += value * w0[i];
        sum1 += value * w1[i];
        sum2 += value * w2[i];
        sum3 += value * w3[i];
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}
#endif

void tw_dot_few(const int8_t *x, int32_t zero, const int8_t *weights, int32_t filter, int32_t count, int32_t filters, int32_t *sums)
{
    if (filters == 3) {
        dot(x, zero, weights, filter, count, sums, 3);
    } else {
        dot(x, zero, weights, filter, count, sums, 2);
    }
}

void tw_dot1(const int8_t *x, int32_t zero, const int8_t *weights, int32_t count, int32_t *sum)
{
    int32_t total = *sum; /* in a register: the compiler must assume that a store to *sum changes x and weights */
    const int8_t *const end = x + count, *const fours = x + (count & ~3);
    for (; x != fours; x += 4, weights += 4) {
        total += (x[0] - zero) * weights[0] + (x[1] - zero) * weights[1];
        total += (x[2] - zero) * weights[2] + (x[3] - zero) * weights[3];
    }
    for (; x != end; ++x, ++weights) {
        total += (*x - zero) * *weights;
    }
    *sum = total;
}
