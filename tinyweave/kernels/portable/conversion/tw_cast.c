/* tw_cast.c - numbers of one type as numbers of another, portable C. */
#include "tw_cast.h"

/* Does the same for each integer type but bool: its name, C type and range. */
#define EACH_INTEGER(DO)                      \
    DO(TW_S8, int8_t, INT8_MIN, INT8_MAX)     \
    DO(TW_U8, uint8_t, 0, UINT8_MAX)          \
    DO(TW_S16, int16_t, INT16_MIN, INT16_MAX) \
    DO(TW_S32, int32_t, INT32_MIN, INT32_MAX) \
    DO(TW_S64, int64_t, INT64_MIN, INT64_MAX)

/* An element of an array of integers. */
static int64_t integer_at(const void *in, int32_t type, int32_t i)
{
#define READ(type, c_type, low, high) case type: return ((const c_type *)in)[i];
    switch (type) {
    EACH_INTEGER(READ)
    default: /* TW_BOOL */
        return ((const uint8_t *)in)[i];
    }
}

static int64_t saturated(float x, int64_t low, int64_t high)
{
    if (x < (float)high) { /* which may be rounded up, to a power of two */
        return x > (float)low ? (int64_t)x : low;
    }
    return high;
}

static int64_t integer_of(float x, int32_t type)
{
#define ROUND(type, c_type, low, high) case type: return saturated(x, low, high);
    switch (type) {
    EACH_INTEGER(ROUND)
    default: /* TW_BOOL */
        return x != 0.0f;
    }
}

static void store(void *out, int32_t type, int32_t i, int64_t value)
{
#define WRITE(type, c_type, low, high) case type: ((c_type *)out)[i] = (c_type)value; break;
    switch (type) {
    EACH_INTEGER(WRITE)
    case TW_F32:
        ((float *)out)[i] = (float)value;
        break;
    default: /* TW_BOOL */
        ((uint8_t *)out)[i] = value != 0;
    }
}

void tw_cast(const tw_casting *p, const void *in, void *out)
{
    for (int32_t i = 0; i < p->count; ++i) {
        if (p->from != TW_F32) {
            store(out, p->to, i, integer_at(in, p->from, i));
        } else if (p->to != TW_F32) {
            store(out, p->to, i, integer_of(((const float *)in)[i], p->to));
        } else {
            ((float *)out)[i] = ((const float *)in)[i];
        }
    }
}
