/* tw_pixels.h - a pixel of a camera or a JPEG file as red, green, blue, or as grey. */
#ifndef TW_PIXELS_H
#define TW_PIXELS_H

#include <stdint.h>

#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) && defined(__thumb__)
#define TW_HAS_SAT 1
#else
#define TW_HAS_SAT 0
#endif

/* What a pixel's colours add to its Y. */
typedef struct { int32_t red, green, blue; } tw_colour;

static inline uint8_t tw_clipped(int32_t value)
{
#if TW_HAS_SAT
    __asm__("usat %0, #8, %1" : "=r"(value) : "r"(value));
    return (uint8_t)value;
#else
    return (uint8_t)((uint32_t)value <= 255u ? value : value < 0 ? 0 : 255);
#endif
}

/* Of Cb and Cr as JFIF defines them, each rounded: 91881 * (cr - 128) + 32768 and so on, by 2^16, rounded down. */
static inline tw_colour tw_colour_of(int32_t cb, int32_t cr)
{
    tw_colour colour;
    colour.red = (91881 * cr + (32768 - 91881 * 128)) >> 16;
    colour.green = (-22554 * cb - 46802 * cr + (32768 + (22554 + 46802) * 128)) >> 16;
    colour.blue = (116130 * cb + (32768 - 116130 * 128)) >> 16;
    return colour;
}

/* Write red, green, blue; return where the next pixel's go. */
static inline uint8_t *tw_rgb_of_y(int32_t y, tw_colour colour, uint8_t *rgb)
{
    rgb[0] = tw_clipped(y + colour.red);
    rgb[1] = tw_clipped(y + colour.green);
    rgb[2] = tw_clipped(y + colour.blue);
    return rgb + 3;
}

static inline void tw_rgb_of_565(uint32_t word, uint8_t *rgb)
{
    rgb[0] = (uint8_t)((word >> 11) * 8u + (word >> 13));
    rgb[1] = (uint8_t)((word >> 5 & 63u) * 4u + (word >> 9 & 3u));
    rgb[2] = (uint8_t)((word & 31u) * 8u + (word >> 2 & 7u));
}

/* Rounded. */
static inline uint8_t tw_grey_of(uint32_t red, uint32_t green, uint32_t blue)
{
    return (uint8_t)((19595u * red + 38470u * green + 7471u * blue + 32768u) >> 16);
}

#endif
