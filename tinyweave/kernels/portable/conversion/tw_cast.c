/* tw_cast.c - numbers of one type as numbers of another, portable C. */
#include "tw_cast.h"

/* Of an array of integers. */
static int64_t integer_at(const void *in, int32_t type, int32_t i)
{
    switch (type) {
    case TW_S8:
        return ((const int8_t *)in)[i];
    case TW_S16:
        return ((const int16_t *)in)[i];
    case TW_S32:
        return ((const int32_t *)in)[i];
    case TW_S64:
        return ((const int64_t *)in)[i];
    default: /* TW_U8, TW_BOOL */
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
    switch (type) {
    case TW_S8:
        return saturated(x, INT8_MIN, INT8_MAX);
    case TW_U8:
        return saturated(x, 0, UINT8_MAX);
    case TW_S16:
        return saturated(x, INT16_MIN, INT16_MAX);
    case TW_S32:
        return saturated(x, INT32_MIN, INT32_MAX);
    case TW_S64:
        return saturated(x, INT64_MIN, INT64_MAX);
    default: /* TW_BOOL */
        return x != 0.0f;
    }
}

static void store(void *out, int32_t type, int32_t i, int64_t value)
{
    switch (type) {
    case TW_S8:
        ((int8_t *)out)[i] = (int8_t)value;
        break;
    case TW_U8:
        ((uint8_t *)out)[i] = (uint8_t)value;
        break;
    case TW_S16:
        ((int16_t *)out)[i] = (int16_t)value;
        break;
    case TW_S32:
        ((int32_t *)out)[i] = (int32_t)value;
        break;
    case TW_S64:
        ((int64_t *)out)[i] = value;
        break;
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
