/* runtime.c - functions to which a compiler may generate calls, so that firmware links without a C library.
 *
 * If they are linked, they count as code of the model, which needs them.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __clang__
#define NO_LOOP_TO_CALL __attribute__((no_builtin("memcpy", "memmove", "memset", "memcmp")))
#else
#define NO_LOOP_TO_CALL __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

typedef struct __attribute__((packed, may_alias)) { uint32_t value; } word; /* may be unaligned */

#define NOT_INLINE __attribute__((noinline)) /* so that memmove, which calls either loop last, saves no registers */

/* Copy upwards and return `to`. The regions may overlap if `to` is below `f`: bytes are read before they are overwritten. */
NO_LOOP_TO_CALL NOT_INLINE static void *copy_forward(void *to, const uint8_t *f, size_t count)
{
    uint8_t *t = to;
    for (; count >= 16; count -= 16, t += 16, f += 16) {
        const uint32_t a = ((const word *)f)[0].value, b = ((const word *)f)[1].value;
        const uint32_t c = ((const word *)f)[2].value, d = ((const word *)f)[3].value;
        ((word *)t)[0].value = a, ((word *)t)[1].value = b;
        ((word *)t)[2].value = c, ((word *)t)[3].value = d;
    }
    for (; count >= 4; count -= 4, t += 4, f += 4) {
        ((word *)t)->value = ((const word *)f)->value;
    }
    while (count-- > 0) {
        *t++ = *f++;
    }
    return to;
}

/* Copy downwards and return `to`. The regions may overlap if `to` is above `f`: bytes are read before they are overwritten. */
NO_LOOP_TO_CALL NOT_INLINE static void *copy_backward(void *to, const uint8_t *f, size_t count)
{
    uint8_t *t = (uint8_t *)to + count;
    for (f += count; count >= 16; count -= 16) {
        t -= 16, f -= 16;
        const uint32_t a = ((const word *)f)[0].value, b = ((const word *)f)[1].value;
        const uint32_t c = ((const word *)f)[2].value, d = ((const word *)f)[3].value;
        ((word *)t)[0].value = a, ((word *)t)[1].value = b;
        ((word *)t)[2].value = c, ((word *)t)[3].value = d;
    }
    for (; count >= 4; count -= 4) {
        t -= 4, f -= 4;
        ((word *)t)->value = ((const word *)f)->value;
    }
    while (count-- > 0) {
        *--t = *--f;
    }
    return to;
}

NO_LOOP_TO_CALL void *memcpy(void *restrict to, const void *restrict from, size_t count)
{
    return copy_forward(to, from, count);
}

NO_LOOP_TO_CALL void *memmove(void *to, const void *from, size_t count)
{
    /* the difference is unsigned, so a `to` below `from` is far above it */
    return (uintptr_t)to - (uintptr_t)from >= count ? copy_forward(to, from, count) : copy_backward(to, from, count);
}

NO_LOOP_TO_CALL void *memset(void *to, int value, size_t count)
{
    uint8_t *t = to;
    const uint32_t four = (uint8_t)value * 0x01010101u;
    for (; count >= 16; count -= 16, t += 16) {
        ((word *)t)[0].value = four, ((word *)t)[1].value = four;
        ((word *)t)[2].value = four, ((word *)t)[3].value = four;
    }
    for (; count >= 4; count -= 4, t += 4) {
        ((word *)t)->value = four;
    }
    while (count-- > 0) {
        *t++ = (uint8_t)value;
    }
    return to;
}

NO_LOOP_TO_CALL int memcmp(const void *left, const void *right, size_t count)
{
    const uint8_t *l = left, *r = right;
    for (; count > 0; --count, ++l, ++r) {
        if (*l != *r) {
            return *l - *r;
        }
    }
    return 0;
}

#ifdef TW_TRACE
__attribute__((noinline)) void tw_trace(int32_t step)
{
    __asm__ volatile("" : : "r"(step));
}
#endif
