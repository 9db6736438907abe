/* tw_copy.h - copies and fills of bytes: vectors on cores with the Arm MVE extension (Helium), the C library on others.
 *
 * The vector loops end with a predicated tail: WLSTP.8 or DLSTP.8 begins a loop, and LETP repeats it while bytes are left in lr.
 * The last vector loads and stores only the bytes left.
 */
#ifndef TW_COPY_H
#define TW_COPY_H

#include <string.h>

#include "tw.h"

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
#define TW_HAS_MVE 1
#include <arm_mve.h>
#else
#define TW_HAS_MVE 0
#endif

/* Copies exactly `count` bytes; `to` may overlap `from` if it begins below. */
static inline void tw_copy(void *to, const void *from, int32_t count)
{
#if TW_HAS_MVE
    __asm__ volatile(
        "wlstp.8 lr, %2, 2f\n"
        "1:\n"
        "vldrb.8 q0, [%1], #16\n"
        "vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+r"(to), "+r"(from) : "r"(count) : "lr", "d0", "d1", "cc", "memory");
#else
    memmove(to, from, (size_t)count);
#endif
}

/* Copies exactly `count` bytes; `to` may overlap `from` in any way. */
static inline void tw_move_bytes(void *to, const void *from, int32_t count)
{
#if TW_HAS_MVE
    const uintptr_t above = (uintptr_t)to - (uintptr_t)from; /* unsigned: a `to` below `from` is far above it */
    if (above >= (uintptr_t)count) {
        tw_copy(to, from, count);
        return;
    }
    if (above == 0) {
        return;
    }
#endif
    memmove(to, from, (size_t)count);
}

/* Copies `times` runs of `run` bytes, at least one; to_step, from_step: bytes from a run to the next. The inner loop is that of
 * tw_copy; it advances both pointers by whole vectors, so the gaps are the steps less that. */
static inline void tw_copies(void *to, int32_t to_step, const void *from, int32_t from_step, int32_t run, int32_t times)
{
#if TW_HAS_MVE
    const int32_t whole = (run + 15) & -16;
    __asm__ volatile(
        "1:\n"
        "dlstp.8 lr, %[run]\n"
        "2:\n"
        "vldrb.8 q0, [%[from]], #16\n"
        "vstrb.8 q0, [%[to]], #16\n"
        "letp lr, 2b\n"
        "add %[from], %[from], %[from_gap]\n"
        "add %[to], %[to], %[to_gap]\n"
        "subs %[times], %[times], #1\n"
        "bne 1b\n"
        : [to] "+r"(to), [from] "+r"(from), [times] "+r"(times)
        : [run] "r"(run), [from_gap] "r"(from_step - whole), [to_gap] "r"(to_step - whole) : "lr", "d0", "d1", "cc", "memory");
#else
    for (int32_t i = 0; i < times; ++i) {
        tw_copy((int8_t *)to + i * to_step, (const int8_t *)from + i * from_step, run);
    }
#endif
}

/* Copies `count` single bytes; to_step, from_step: bytes from one to the next. Steps of up to 65,535 / 7 bytes take a gather load
 * and a scatter store for eight bytes. */
static inline void tw_copy_bytes(void *to, int32_t to_step, const void *from, int32_t from_step, int32_t count)
{
    const uint8_t *f = (const uint8_t *)from;
    uint8_t *t = (uint8_t *)to;
#if TW_HAS_MVE
    if ((uint32_t)tw_max(to_step, from_step) <= UINT16_MAX / 7 && tw_min(to_step, from_step) >= 0) {
        const uint16x8_t lanes = vidupq_n_u16(0, 1);
        const uint16x8_t loads = vmulq_n_u16(lanes, (uint16_t)from_step), stores = vmulq_n_u16(lanes, (uint16_t)to_step);
        __asm__ volatile(
            "wlstp.16 lr, %[count], 2f\n"
            "1:\n"
            "vldrb.u16 q0, [%[from], %q[loads]]\n"
            "vstrb.16 q0, [%[to], %q[stores]]\n"
            "add %[from], %[from], %[from_eight]\n"
            "add %[to], %[to], %[to_eight]\n"
            "letp lr, 1b\n"
            "2:\n"
            : [to] "+r"(t), [from] "+r"(f)
            : [count] "r"(count), [from_eight] "r"(8 * from_step), [to_eight] "r"(8 * to_step), [loads] "w"(loads),
              [stores] "w"(stores)
            : "lr", "d0", "d1", "cc", "memory");
        return;
    }
#endif
    for (; count >= 4; count -= 4, f += 4 * from_step, t += 4 * to_step) {
        t[0] = f[0];
        t[to_step] = f[from_step];
        t[2 * to_step] = f[2 * from_step];
        t[3 * to_step] = f[3 * from_step];
    }
    for (; count > 0; --count, f += from_step, t += to_step) {
        *t = *f;
    }
}

/* Fills exactly `count` bytes with a value. */
static inline void tw_fill(void *to, int32_t value, int32_t count)
{
#if TW_HAS_MVE
    __asm__ volatile(
        "vdup.8 q0, %1\n"
        "wlstp.8 lr, %2, 2f\n"
        "1:\n"
        "vstrb.8 q0, [%0], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+r"(to) : "r"(value), "r"(count) : "lr", "d0", "d1", "cc", "memory");
#else
    memset(to, value, (size_t)count);
#endif
}

#endif
