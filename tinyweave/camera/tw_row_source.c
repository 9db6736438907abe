/* tw_row_source.c - brings the rows of a network's input out of lines of a picture: see tw_row_source.h. */
#include "tw_row_source.h"

#include <stddef.h>
#include <string.h>

#include "tw_pixels.h"

/* luma: where in two pixels of 4 bytes the first Y lies; the colours lie at the other places. */
static void rgb_of_yuv(const uint8_t *line, int32_t luma, int32_t first, int32_t count, uint8_t *rgb)
{
    const uint8_t *pair = line + first / 2 * 4;
    if (first % 2 != 0) {
        rgb = tw_rgb_of_y(pair[2 + luma], tw_colour_of(pair[1 - luma], pair[3 - luma]), rgb);
        pair += 4;
        --count;
    }
    for (; count > 1; count -= 2, pair += 4) {
        const tw_colour colour = tw_colour_of(pair[1 - luma], pair[3 - luma]);
        rgb = tw_rgb_of_y(pair[luma], colour, rgb);
        rgb = tw_rgb_of_y(pair[2 + luma], colour, rgb);
    }
    if (count > 0) {
        tw_rgb_of_y(pair[luma], tw_colour_of(pair[1 - luma], pair[3 - luma]), rgb);
    }
}

void tw_convert_line(int32_t format, const uint8_t *line, int32_t first, int32_t count, int32_t channels, uint8_t *pixels)
{
    const int32_t end = first + count, red = format == TW_LINE_BGR ? 2 : 0; /* red: its place in three bytes */
    const int32_t high = format == TW_LINE_RGB565, luma = format == TW_LINE_UYVY; /* high: of two bytes that with red */
    const uint8_t *three = line + 3 * (ptrdiff_t)first, *two = line + 2 * (ptrdiff_t)first;
    uint8_t rgb[3];
    switch (format) {
    case TW_LINE_GREY:
        if (channels == 1) {
            memcpy(pixels, line + first, (size_t)count);
            break;
        }
        for (int32_t x = first; x < end; ++x, pixels += 3) {
            pixels[0] = pixels[1] = pixels[2] = line[x];
        }
        break;
    case TW_LINE_YUYV:
    case TW_LINE_UYVY:
        if (channels == 3) {
            rgb_of_yuv(line, luma, first, count, pixels);
            break;
        }
        for (int32_t i = 0; i < count; ++i) { /* grey is Y */
            pixels[i] = two[2 * i + luma];
        }
        break;
    case TW_LINE_RGB565:
    case TW_LINE_RGB565_BE:
        for (int32_t i = 0; i < count; ++i, two += 2) {
            const uint32_t word = two[high] * 256u + two[1 - high];
            if (channels == 3) {
                tw_rgb_of_565(word, pixels);
                pixels += 3;
            } else {
                tw_rgb_of_565(word, rgb);
                *pixels++ = tw_grey_of(rgb[0], rgb[1], rgb[2]);
            }
        }
        break;
    default:
        for (int32_t i = 0; i < count; ++i, three += 3) {
            if (channels == 3) {
                pixels[0] = three[red];
                pixels[1] = three[1];
                pixels[2] = three[2 - red];
                pixels += 3;
            } else {
                *pixels++ = tw_grey_of(three[red], three[1], three[2 - red]);
            }
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
