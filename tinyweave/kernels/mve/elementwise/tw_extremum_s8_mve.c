/* tw_extremum_s8_mve.c - the smaller or the larger of two int8 operands with broadcasting with the Arm MVE extension, sixteen
 * elements at a time. Cost: 5 instructions per sixteen elements. */
#include "tw_binary_mve.h"

#include "tw_mve.h"

#if TW_HAS_MVE

/* `count` elements by the instruction `op`; `load`: the load of q1, or nothing for an operand that repeats, whose element fills q1.
 * WLSTP.8 and LETP predicate the tail: the last vector loads and stores only the bytes left. lr: bytes left; q0, q1: elements. */
#define EXTREMUM(op, load)                                 \
    __asm__ volatile(                                      \
        "vdup.8 q1, %[first]\n"                            \
        "wlstp.8 lr, %[count], 2f\n"                       \
        "1:\n"                                             \
        "vldrb.8 q0, [%[a]], #16\n" load op " q0, q0, q1\n" \
        "vstrb.8 q0, [%[to]], #16\n"                       \
        "letp lr, 1b\n"                                    \
        "2:\n"                                             \
        : [to] "+r"(to), [a] "+r"(a), [b] "+r"(b)          \
        : [count] "r"(count), [first] "r"(*b) : "lr", "d0", "d1", "d2", "d3", "cc", "memory")
#define LOAD "vldrb.8 q1, [%[b]], #16\n"

/* `count` elements; an operand advances by its step, 0 or 1, per element; at most one has step 0. */
static void extremum_run(const tw_extremum *p, const int8_t *a, int32_t a_step, const int8_t *b, int32_t b_step, int8_t *to,
                         int32_t count)
{
    if (!a_step) {
        const int8_t *const other = a;
        a = b;
        b = other;
    }
    if (a_step & b_step) {
        if (p->larger) {
            EXTREMUM("vmax.s8", LOAD);
        } else {
            EXTREMUM("vmin.s8", LOAD);
        }
    } else if (p->larger) {
        EXTREMUM("vmax.s8", "");
    } else {
        EXTREMUM("vmin.s8", "");
    }
}

static inline int32_t elements(tw_extents x) { return x.n * x.h * x.w * x.c; }

void tw_extremum_s8_mve_part(const tw_extremum *p, tw_view a, tw_view b, tw_view out, tw_range range)
{
    TW_EACH_RUN(p, a, b, out, range,
                extremum_run(p, from_a, a_steps.channel, from_b, b_steps.channel, to, together * p->out.c));
}

void tw_extremum_s8_mve(const tw_extremum *p, const void *a, const void *b, void *out)
{
    const int32_t count = elements(p->out);
    if (elements(p->a) == count && elements(p->b) == count) { /* no operand repeats: all rows are one run */
        extremum_run(p, (const int8_t *)a, 1, (const int8_t *)b, 1, (int8_t *)out, count);
        return;
    }
    tw_extremum_s8_mve_part(p, tw_whole(a, tw_fold(p->a)), tw_whole(b, tw_fold(p->b)), tw_whole(out, tw_fold(p->out)),
                            tw_all(tw_fold(p->out)));
}

#else

TW_EACH_S8_FORM(tw_extremum_s8_mve, tw_extremum, p->larger ? tw_max(x, y) : tw_min(x, y))

#endif
