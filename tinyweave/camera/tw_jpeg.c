/* tw_jpeg.c - decodes the picture of a baseline JPEG file line by line: see tw_jpeg.h. */
#include "tw_jpeg.h"

#include <stddef.h>
#include <string.h>

#include "tw_idct.h"
#include "tw_jpeg_bytes.h"
#include "tw_pixels.h"

enum { DC_BITS = 11, AC_BITS = 10, MOST_VALUE = 2047 };

static const uint8_t zigzag[64] = {
     0,  1,  8, 16,  9,  2,  3, 10, 17, 24, 32, 25, 18, 11,  4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,  6,  7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* Take bytes until there are more than 24 bits, or a marker comes, or there are no more. */
static void fill(tw_jpeg *jpeg)
{
    while (jpeg->bit_count <= 24 && jpeg->marker == 0) {
        int32_t byte = tw_jpeg_byte(jpeg);
        if (byte == 0xFF) {
            do {
                byte = tw_jpeg_byte(jpeg);
            } while (byte == 0xFF);
            if (byte > 0) {
                jpeg->marker = byte;
                return;
            }
            byte = byte == 0 ? 0xFF : byte;
        }
        if (byte < 0) {
            return;
        }
        jpeg->bits |= (uint32_t)byte << (24 - jpeg->bit_count);
        jpeg->bit_count += 8;
    }
}

/* The next bits, up to 16, as a number. 0 and an error where there are not so many. */
static int32_t take(tw_jpeg *jpeg, int32_t count)
{
    if (count == 0) {
        return 0;
    }
    if (jpeg->bit_count < count) {
        fill(jpeg);
        if (jpeg->bit_count < count) {
            tw_jpeg_fail(jpeg, jpeg->marker != 0 ? TW_JPEG_DAMAGED : jpeg->stop);
            return 0;
        }
    }
    const uint32_t value = jpeg->bits >> (32 - count);
    jpeg->bits <<= count;
    jpeg->bit_count -= count;
    return (int32_t)value;
}

/* The symbol of the next code; 0 and an error where there is none. */
static int32_t next_symbol(tw_jpeg *jpeg, const tw_jpeg_huffman *table)
{
    if (jpeg->bit_count < 16) {
        fill(jpeg);
    }
    const uint32_t next = jpeg->bits >> 16;
    const int32_t quick = table->quick[next >> 8];
    int32_t length = quick >> 8, symbol = quick & 255;
    if (length == 0) {
        for (length = 9; length <= 16 && next >= table->limit[length]; ++length) {
        }
        if (length > 16) { /* bits that are missing are 0, so this may be for want of them */
            tw_jpeg_fail(jpeg, jpeg->bit_count >= 16 || jpeg->marker != 0 ? TW_JPEG_DAMAGED : jpeg->stop);
            return 0;
        }
        symbol = table->symbols[(int32_t)(next >> (16 - length)) + table->offset[length]];
    }
    take(jpeg, length);
    return symbol;
}

/* A value of `size` bits, as JPEG has them: the lower half of the numbers are negative. */
static int32_t next_value(tw_jpeg *jpeg, int32_t size)
{
    const int32_t value = take(jpeg, size);
    return size > 0 && value < 1 << (size - 1) ? value - (1 << size) + 1 : value;
}

static int16_t clipped(int32_t value)
{
    return (int16_t)(value < -MOST_VALUE ? -MOST_VALUE : value > MOST_VALUE ? MOST_VALUE : value);
}

/* Read the coefficients of a block, times their quantisers; return which there are, as tw_idct_8x8 takes it. */
static uint32_t read_block(tw_jpeg *jpeg, tw_jpeg_component *component, int16_t *coefficients)
{
    uint32_t used = 0;
    const uint8_t *quantiser = jpeg->quantisers[component->quantiser];
    const int32_t size = next_symbol(jpeg, &jpeg->dc[component->dc]);
    if (size > DC_BITS) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
        return 0;
    }
    component->predicted += next_value(jpeg, size);
    if (component->predicted < -MOST_VALUE || component->predicted > MOST_VALUE) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    }
    if (jpeg->status != 0) {
        return 0;
    }
    memset(coefficients, 0, 64 * sizeof *coefficients);
    coefficients[0] = clipped(component->predicted * quantiser[0]);
    for (int32_t i = 1; i < 64; ++i) {
        const int32_t symbol = next_symbol(jpeg, &jpeg->ac[component->ac]), bits = symbol & 15;
        if (symbol == 0 || jpeg->status != 0) { /* all others are 0 */
            return used;
        }
        i += symbol >> 4;
        if (i > 63 || bits > AC_BITS || (bits == 0 && symbol != 0xF0)) {
            tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
            return 0;
        }
        if (bits > 0) {
            const int32_t place = zigzag[i];
            coefficients[place] = clipped(next_value(jpeg, bits) * quantiser[i]);
            used |= place < 8 ? TW_IDCT_FIRST_ROW : 1u << (place & 7);
        }
    }
    return used;
}

/* After so many MCUs the bits begin anew behind a marker; markers are numbered. */
static void restart(tw_jpeg *jpeg)
{
    if (jpeg->marker == 0) {
        fill(jpeg);
    }
    if (jpeg->bit_count > 7 || (jpeg->marker != 0 && jpeg->marker != TW_JPEG_RST0 + jpeg->next_restart)) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    } else if (jpeg->marker == 0) {
        tw_jpeg_fail(jpeg, jpeg->stop);
    }
    jpeg->marker = jpeg->bit_count = 0;
    jpeg->bits = 0;
    jpeg->next_restart = (jpeg->next_restart + 1) % 8;
    jpeg->until_restart = jpeg->restart_interval;
    for (int32_t i = 0; i < jpeg->colours; ++i) {
        jpeg->components[i].predicted = 0;
    }
}

/* Decode a row of MCUs into the band; with is_wanted 0 only its bits are read. */
static void decode_row(tw_jpeg *jpeg, int is_wanted)
{
    int16_t coefficients[64];
    for (int32_t mcu = 0; mcu < jpeg->mcus; ++mcu) {
        if (jpeg->restart_interval > 0 && jpeg->until_restart-- == 0) {
            restart(jpeg);
            jpeg->until_restart--;
        }
        for (int32_t i = 0; i < jpeg->colours; ++i) {
            tw_jpeg_component *component = &jpeg->components[i];
            for (int32_t block = 0; block < component->h * component->w; ++block) {
                const uint32_t used = read_block(jpeg, component, coefficients);
                if (jpeg->status != 0) {
                    return;
                }
                if (is_wanted && component->pixels != NULL) {
                    const int32_t y = block / component->w * 8, x = (mcu * component->w + block % component->w) * 8;
                    tw_idct_8x8(coefficients, used, component->pixels + y * component->stride + x, component->stride);
                }
            }
        }
    }
    jpeg->next_row++;
}

static void write_grey(const tw_jpeg *jpeg, const uint8_t *y, int32_t shift, uint8_t *pixels)
{
    for (int32_t x = 0; x < jpeg->width; ++x) {
        for (int32_t channel = 0; channel < jpeg->channels; ++channel) {
            *pixels++ = y[x >> shift];
        }
    }
}

/* Red, green, blue where each pixel has its own Y, and 1 << shift pixels share their colours. */
static void write_colours(const tw_jpeg *jpeg, const uint8_t *const values[3], int32_t shift, uint8_t *pixels)
{
    const uint8_t *y = values[0], *cb = values[1], *cr = values[2];
    int32_t left = jpeg->width;
    for (; shift == 1 && left > 1; left -= 2) { /* most files have this */
        const tw_colour colour = tw_colour_of(*cb++, *cr++);
        pixels = tw_rgb_of_y(*y++, colour, pixels);
        pixels = tw_rgb_of_y(*y++, colour, pixels);
    }
    while (left > 0) {
        const tw_colour colour = tw_colour_of(*cb++, *cr++);
        for (int32_t i = 0; i < 1 << shift && left > 0; ++i, --left) {
            pixels = tw_rgb_of_y(*y++, colour, pixels);
        }
    }
}

static void write_any(const tw_jpeg *jpeg, const uint8_t *const values[3], const int32_t shifts[3], uint8_t *pixels)
{
    for (int32_t x = 0; x < jpeg->width; ++x) {
        uint8_t rgb[3];
        for (int32_t i = 0; i < 3; ++i) {
            rgb[i] = values[i][x >> shifts[i]];
        }
        if (!jpeg->is_rgb) {
            tw_rgb_of_y(rgb[0], tw_colour_of(rgb[1], rgb[2]), rgb);
        }
        if (jpeg->channels == 1) {
            *pixels++ = tw_grey_of(rgb[0], rgb[1], rgb[2]);
        } else {
            memcpy(pixels, rgb, 3);
            pixels += 3;
        }
    }
}

int32_t tw_jpeg_line(void *user, int32_t line, uint8_t *pixels)
{
    tw_jpeg *jpeg = (tw_jpeg *)user;
    if (jpeg->status == 0 && (line < jpeg->next_line || line >= jpeg->height)) {
        tw_jpeg_fail(jpeg, TW_JPEG_ORDER);
    }
    const int32_t row = jpeg->status == 0 ? line / jpeg->band_lines : 0;
    while (jpeg->status == 0 && jpeg->next_row <= row) {
        decode_row(jpeg, jpeg->next_row == row);
    }
    if (jpeg->status != 0) {
        return jpeg->status;
    }
    const uint8_t *values[3] = {NULL, NULL, NULL};
    int32_t shifts[3] = {0, 0, 0};
    for (int32_t i = 0; i < jpeg->colours; ++i) {
        const tw_jpeg_component *component = &jpeg->components[i];
        if (component->pixels != NULL) {
            values[i] = component->pixels + (line % jpeg->band_lines >> component->shift_h) * component->stride;
            shifts[i] = component->shift_w;
        }
    }
    if (values[1] == NULL) {
        write_grey(jpeg, values[0], shifts[0], pixels);
    } else if (jpeg->is_rgb || shifts[0] != 0 || shifts[1] != shifts[2]) {
        write_any(jpeg, values, shifts, pixels);
    } else {
        write_colours(jpeg, values, shifts[1], pixels);
    }
    jpeg->next_line = line + 1;
    return 0;
}
