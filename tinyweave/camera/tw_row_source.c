/* tw_row_source.c - brings the rows of a network's input out of lines of a picture: see tw_row_source.h. */
#include "tw_row_source.h"

#include <stddef.h>
#include <string.h>

static uint8_t clipped(int32_t value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* A value above -2^24 by 2^16, rounded down; only what is not negative is shifted. */
static int32_t shifted(int32_t value) { return ((value + (1 << 24)) >> 16) - (1 << 8); }

void tw_rgb_of_ycc(int32_t y, int32_t cb, int32_t cr, uint8_t *rgb)
{
    cb -= 128;
    cr -= 128;
    rgb[0] = clipped(y + shifted(91881 * cr + 32768));
    rgb[1] = clipped(y + shifted(-22554 * cb - 46802 * cr + 32768));
    rgb[2] = clipped(y + shifted(116130 * cb + 32768));
}

uint8_t tw_grey_of_rgb(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

static void rgb_of_pixel(int32_t format, const uint8_t *line, int32_t x, uint8_t *rgb)
{
    const uint8_t *pair = line + x / 2 * 4, *pixel = line + 3 * (ptrdiff_t)x;
    uint32_t word;
    switch (format) {
    case TW_LINE_YUYV:
        tw_rgb_of_ycc(pair[x % 2 * 2], pair[1], pair[3], rgb);
        break;
    case TW_LINE_UYVY:
        tw_rgb_of_ycc(pair[1 + x % 2 * 2], pair[0], pair[2], rgb);
        break;
    case TW_LINE_RGB565:
    case TW_LINE_RGB565_BE:
        word = line[2 * x + (format == TW_LINE_RGB565)] * 256u + line[2 * x + (format == TW_LINE_RGB565_BE)];
        rgb[0] = (uint8_t)((word >> 11) * 8u + (word >> 13));
        rgb[1] = (uint8_t)((word >> 5 & 63u) * 4u + (word >> 9 & 3u));
        rgb[2] = (uint8_t)((word & 31u) * 8u + (word >> 2 & 7u));
        break;
    case TW_LINE_GREY:
        rgb[0] = rgb[1] = rgb[2] = line[x];
        break;
    default:
        rgb[0] = pixel[format == TW_LINE_BGR ? 2 : 0];
        rgb[1] = pixel[1];
        rgb[2] = pixel[format == TW_LINE_BGR ? 0 : 2];
    }
}

void tw_convert_line(int32_t format, const uint8_t *line, int32_t first, int32_t count, int32_t channels, uint8_t *pixels)
{
    for (int32_t x = first; x < first + count; ++x) {
        uint8_t rgb[3];
        if (channels == 3) {
            rgb_of_pixel(format, line, x, pixels);
            pixels += 3;
        } else if (format == TW_LINE_GREY) {
            *pixels++ = line[x];
        } else if (format == TW_LINE_YUYV || format == TW_LINE_UYVY) { /* grey is Y */
            *pixels++ = line[2 * x + (format == TW_LINE_UYVY)];
        } else {
            rgb_of_pixel(format, line, x, rgb);
            *pixels++ = tw_grey_of_rgb(rgb);
        }
    }
}

/* Read a line of the crop for the resizer. */
static int32_t read_cropped(void *user, int32_t line, uint8_t *pixels)
{
    const tw_row_source *source = (const tw_row_source *)user;
    const tw_picture *picture = source->picture;
    const int32_t channels = picture->channels;
    uint8_t *whole = source->line == NULL ? pixels : source->line;
    const int32_t failed = source->read(source->user, picture->top + line, whole);
    if (failed != 0) {
        return failed;
    }
    if (source->line != NULL) {
        tw_convert_line(picture->format, whole, picture->left, picture->crop_width, channels, pixels);
    } else if (picture->left > 0) {
        memmove(pixels, whole + picture->left * channels, (size_t)(picture->crop_width * channels));
    }
    return 0;
}

static int32_t begin_picture(tw_row_source *source)
{
    const tw_picture *p = source->picture;
    const int32_t sums = TW_RESIZER_SUM_BYTES(p->out_width, p->channels);
    const int32_t count = TW_RESIZER_LINES(p->crop_height, p->out_height);
    const int is_plain = TW_IS_PLAIN(p->format, p->channels);
    const int32_t line = (is_plain ? p->width : p->crop_width) * p->channels;
    uint8_t *lines = source->memory + sums;
    source->line = is_plain ? NULL : lines + count * line;
    source->next_row = 0;
    return tw_resizer_begin(&source->resizer, p->crop_height, p->crop_width, p->out_height, p->out_width, p->channels,
                            (uint32_t *)(void *)source->memory, lines, count == 2 ? lines + line : NULL);
}

int32_t tw_row_source_begin(tw_row_source *source, const tw_picture *picture, tw_read_line read, void *user, void *memory,
                            int32_t bytes)
{
    const tw_picture *p = picture;
    const int32_t most = 0xFFFF;
    if (memory == NULL || read == NULL || (uintptr_t)memory % 4 != 0 || p->format < TW_LINE_GREY || p->format > TW_LINE_UYVY ||
        (p->channels != 1 && p->channels != 3) || p->height < 1 || p->height > most || p->width < 1 || p->width > most ||
        p->top < 0 || p->top >= p->height || p->left < 0 || p->left >= p->width || p->crop_height < 1 ||
        p->crop_height > p->height - p->top || p->crop_width < 1 || p->crop_width > p->width - p->left ||
        p->out_width < 1 || p->out_width > 4096 || (p->format >= TW_LINE_YUYV && p->width % 2 != 0)) {
        return -1;
    }
    const int32_t needed =
        TW_ROW_SOURCE_BYTES(p->format, p->width, p->crop_height, p->crop_width, p->out_height, p->out_width, p->channels);
    if (bytes < needed) {
        return -1;
    }
    source->picture = picture;
    source->read = read;
    source->user = user;
    source->memory = (uint8_t *)memory;
    return begin_picture(source);
}

int tw_row_source_rows(void *user, int32_t input, int32_t first, int32_t count, void *destination)
{
    tw_row_source *source = (tw_row_source *)user;
    const tw_picture *p = source->picture;
    int8_t *row = (int8_t *)destination;
    (void)input;
    if (first == 0) {
        (void)begin_picture(source);
    }
    if (first != source->next_row || count < 0 || count > p->out_height - first) {
        return -1;
    }
    for (; count > 0; --count, row += p->out_width * p->channels) {
        const int32_t failed = tw_resizer_row(&source->resizer, source->next_row, read_cropped, source, p->values, row);
        if (failed != 0) {
            return failed;
        }
        source->next_row++;
    }
    return 0;
}
