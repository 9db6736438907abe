/* tw_jpeg_head.c - reads a JPEG file up to its picture: see tw_jpeg.h. */
#include <stddef.h>
#include <string.h>

#include "tw_jpeg_bytes.h"

enum { SOF0 = 0xC0, DHT = 0xC4, SOF2 = 0xC2, JPG = 0xC8, SOF15 = 0xCF, SOI = 0xD8, SOS = 0xDA, DQT = 0xDB };
enum { DRI = 0xDD, APP0 = 0xE0, APP14 = 0xEE, APP15 = 0xEF, COM = 0xFE };
enum { MOST_BLOCKS = 10 };

int32_t tw_jpeg_fail(tw_jpeg *jpeg, int32_t status)
{
    if (jpeg->status == 0) {
        jpeg->status = status;
    }
    return jpeg->status;
}

int32_t tw_jpeg_byte(tw_jpeg *jpeg)
{
    if (jpeg->at == jpeg->filled && jpeg->stop == 0) {
        const int32_t most = jpeg->budget < TW_JPEG_INPUT_BYTES ? (int32_t)jpeg->budget : TW_JPEG_INPUT_BYTES;
        const int32_t count = most == 0 ? 0 : jpeg->read(jpeg->user, jpeg->input, most);
        jpeg->at = jpeg->filled = 0;
        if (most == 0) {
            jpeg->stop = TW_JPEG_BUDGET;
        } else if (count == 0) {
            jpeg->stop = TW_JPEG_ENDED;
        } else if (count < 0 || count > most) {
            jpeg->stop = TW_JPEG_READ_FAILED;
        } else {
            jpeg->filled = count;
            jpeg->budget -= (uint32_t)count;
        }
    }
    return jpeg->stop != 0 ? -1 : jpeg->input[jpeg->at++];
}

/* The next byte of a segment with `*left` bytes; 0 and an error where there is none. */
static int32_t of_segment(tw_jpeg *jpeg, int32_t *left)
{
    const int32_t byte = *left > 0 ? tw_jpeg_byte(jpeg) : -1;
    if (byte < 0) {
        tw_jpeg_fail(jpeg, *left > 0 ? jpeg->stop : TW_JPEG_DAMAGED);
        return 0;
    }
    --*left;
    return byte;
}

static int32_t two_of_segment(tw_jpeg *jpeg, int32_t *left)
{
    const int32_t high = of_segment(jpeg, left);
    return high * 256 + of_segment(jpeg, left);
}

/* The next marker, which must come at once; 0xFF may stand before it more than once. */
static int32_t next_marker(tw_jpeg *jpeg)
{
    int32_t byte = tw_jpeg_byte(jpeg);
    if (byte >= 0 && byte != 0xFF) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
        return 0;
    }
    while (byte == 0xFF) {
        byte = tw_jpeg_byte(jpeg);
    }
    if (byte < 0) {
        tw_jpeg_fail(jpeg, jpeg->stop);
        return 0;
    }
    return byte;
}

static void read_quantisers(tw_jpeg *jpeg, int32_t left)
{
    while (left > 0 && jpeg->status == 0) {
        const int32_t number = of_segment(jpeg, &left);
        if (number > 3) { /* of 16 bits, or one too many */
            tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
            return;
        }
        for (int32_t i = 0; i < 64; ++i) {
            jpeg->quantisers[number][i] = (uint8_t)of_segment(jpeg, &left);
        }
        jpeg->has_quantiser[number] = 1;
    }
}

static void read_huffman(tw_jpeg *jpeg, int32_t left)
{
    while (left > 0 && jpeg->status == 0) {
        const int32_t number = of_segment(jpeg, &left);
        if ((number & 0xEE) != 0) {
            tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
            return;
        }
        tw_jpeg_huffman *table = number >= 16 ? &jpeg->ac[number & 1] : &jpeg->dc[number & 1];
        int32_t counts[17], total = 0;
        uint32_t code = 0; /* as the highest of 16 bits */
        for (int32_t length = 1; length <= 16; ++length) {
            counts[length] = of_segment(jpeg, &left);
            table->offset[length] = total - (int32_t)(code >> (16 - length));
            code += (uint32_t)counts[length] << (16 - length);
            table->limit[length] = code;
            total += counts[length];
            if (code > 0x10000u || total > 256) {
                tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
                return;
            }
        }
        for (int32_t i = 0; i < total; ++i) {
            table->symbols[i] = (uint8_t)of_segment(jpeg, &left);
        }
        memset(table->quick, 0, sizeof table->quick);
        uint32_t at = 0;
        int32_t place = 0;
        for (int32_t length = 1; length <= 8; ++length) {
            for (int32_t i = 0; i < counts[length]; ++i, ++place) {
                const uint16_t entry = (uint16_t)(length * 256 + table->symbols[place]);
                for (uint32_t end = at + (256u >> length); at < end; ++at) {
                    table->quick[at] = entry;
                }
            }
        }
        table->is_there = 1;
    }
}

/* APP0 and APP14 say whose colours these are; what else is in a segment is passed over. */
static void read_application(tw_jpeg *jpeg, int32_t marker, int32_t left)
{
    uint8_t begin[12];
    int32_t count = 0;
    while (left > 0 && jpeg->status == 0) {
        const uint8_t byte = (uint8_t)of_segment(jpeg, &left);
        if (count < 12) {
            begin[count++] = byte;
        }
    }
    if (marker == APP0 && count >= 5 && memcmp(begin, "JFIF", 5) == 0) {
        jpeg->jfif = 1;
    } else if (marker == APP14 && count == 12 && memcmp(begin, "Adobe", 5) == 0) {
        jpeg->adobe = begin[11];
    }
}

static void read_frame(tw_jpeg *jpeg, int32_t left)
{
    const int32_t bits = of_segment(jpeg, &left);
    jpeg->height = two_of_segment(jpeg, &left);
    jpeg->width = two_of_segment(jpeg, &left);
    jpeg->colours = 0;
    const int32_t colours = of_segment(jpeg, &left);
    if (jpeg->status != 0) {
        return;
    }
    if (bits != 8 || jpeg->height == 0) {
        tw_jpeg_fail(jpeg, TW_JPEG_NOT_BASELINE);
    } else if (colours != 1 && colours != 3) {
        tw_jpeg_fail(jpeg, TW_JPEG_COLOURS);
    } else if (jpeg->width == 0 || left != 3 * colours) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    }
    for (int32_t i = 0; i < colours && jpeg->status == 0; ++i) {
        tw_jpeg_component *component = &jpeg->components[i];
        component->id = (uint8_t)of_segment(jpeg, &left);
        const int32_t sampling = of_segment(jpeg, &left);
        component->w = (uint8_t)(sampling >> 4);
        component->h = (uint8_t)(sampling & 15);
        component->quantiser = (uint8_t)of_segment(jpeg, &left);
        if (component->w < 1 || component->w > 4 || component->h < 1 || component->h > 4 || component->quantiser > 3) {
            tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
        }
    }
    jpeg->colours = colours;
}

/* Return the power of two that `whole` is times `part`, or -1. */
static int32_t ratio(int32_t whole, int32_t part)
{
    return whole == part ? 0 : whole == 2 * part ? 1 : whole == 4 * part ? 2 : -1;
}

/* Lay out the band; what is kept of each component is its blocks of one row of MCUs. */
static void lay_out(tw_jpeg *jpeg, uint8_t *band, int32_t band_bytes)
{
    int32_t h = 1, w = 1, blocks = 0, needed = 0;
    if (jpeg->colours == 1) {
        jpeg->components[0].h = jpeg->components[0].w = 1;
    }
    for (int32_t i = 0; i < jpeg->colours; ++i) {
        const tw_jpeg_component *component = &jpeg->components[i];
        h = component->h > h ? component->h : h;
        w = component->w > w ? component->w : w;
        blocks += component->h * component->w;
    }
    jpeg->band_lines = 8 * h;
    jpeg->mcus = (jpeg->width + 8 * w - 1) / (8 * w);
    jpeg->mcu_rows = (jpeg->height + 8 * h - 1) / (8 * h);
    if (blocks > MOST_BLOCKS) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
        return;
    }
    for (int32_t i = 0; i < jpeg->colours; ++i) {
        tw_jpeg_component *component = &jpeg->components[i];
        component->shift_h = ratio(h, component->h);
        component->shift_w = ratio(w, component->w);
        component->stride = jpeg->mcus * component->w * 8;
        component->pixels = NULL;
        if (component->shift_h < 0 || component->shift_w < 0) {
            tw_jpeg_fail(jpeg, TW_JPEG_SAMPLING);
            return;
        }
        if (i == 0 || jpeg->channels == 3 || jpeg->is_rgb) {
            const int32_t bytes = component->stride * component->h * 8;
            if (bytes > band_bytes - needed) {
                tw_jpeg_fail(jpeg, TW_JPEG_TOO_LARGE);
                return;
            }
            component->pixels = band + needed;
            needed += bytes;
        }
    }
}

static void read_scan(tw_jpeg *jpeg, int32_t left)
{
    const int32_t count = of_segment(jpeg, &left);
    if (jpeg->status == 0 && (jpeg->colours == 0 || count < 1 || left != 2 * count + 3)) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    } else if (jpeg->status == 0 && count != jpeg->colours) {
        tw_jpeg_fail(jpeg, TW_JPEG_SCANS);
    }
    for (int32_t i = 0; i < jpeg->colours && jpeg->status == 0; ++i) {
        tw_jpeg_component *component = &jpeg->components[i];
        const int32_t id = of_segment(jpeg, &left), tables = of_segment(jpeg, &left);
        component->dc = (uint8_t)(tables >> 4);
        component->ac = (uint8_t)(tables & 15);
        if (jpeg->status == 0 &&
            (id != component->id || component->dc > 1 || component->ac > 1 || !jpeg->dc[component->dc].is_there ||
             !jpeg->ac[component->ac].is_there || !jpeg->has_quantiser[component->quantiser])) {
            tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
        }
    }
    const int32_t first = of_segment(jpeg, &left), last = of_segment(jpeg, &left), bits = of_segment(jpeg, &left);
    if (jpeg->status == 0 && (first != 0 || last != 63 || bits != 0)) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    }
}

static void read_segment(tw_jpeg *jpeg, int32_t marker)
{
    int32_t two = 2;
    const int32_t length = two_of_segment(jpeg, &two), left = length - 2;
    if (jpeg->status != 0) {
        return;
    }
    if (left < 0) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    } else if (marker == DQT) {
        read_quantisers(jpeg, left);
    } else if (marker == DHT) {
        read_huffman(jpeg, left);
    } else if (marker == SOF2) {
        tw_jpeg_fail(jpeg, TW_JPEG_PROGRESSIVE);
    } else if (marker > SOF0 && marker <= SOF15 && marker != JPG) {
        tw_jpeg_fail(jpeg, TW_JPEG_NOT_BASELINE);
    } else if (marker == SOF0 && jpeg->colours != 0) {
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    } else if (marker == SOF0) {
        read_frame(jpeg, left);
    } else if (marker == SOS) {
        read_scan(jpeg, left);
    } else if (marker == DRI) {
        int32_t rest = left;
        jpeg->restart_interval = two_of_segment(jpeg, &rest);
        if (rest != 0) {
            tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
        }
    } else if ((marker >= APP0 && marker <= APP15) || marker == COM) {
        read_application(jpeg, marker, left);
    } else { /* a marker without a segment, or one that is not of a picture's head */
        tw_jpeg_fail(jpeg, TW_JPEG_DAMAGED);
    }
}

int32_t tw_jpeg_begin(tw_jpeg *jpeg, tw_jpeg_reader read, void *user, uint32_t budget, int32_t channels, void *band,
                      int32_t band_bytes)
{
    int32_t marker = 0;
    memset(jpeg, 0, sizeof *jpeg);
    jpeg->read = read;
    jpeg->user = user;
    jpeg->budget = budget;
    jpeg->channels = channels;
    jpeg->adobe = -1;
    if (tw_jpeg_byte(jpeg) != 0xFF || tw_jpeg_byte(jpeg) != SOI) {
        const int is_readable = jpeg->stop != TW_JPEG_READ_FAILED && jpeg->stop != TW_JPEG_BUDGET;
        return tw_jpeg_fail(jpeg, is_readable ? TW_JPEG_NO_JPEG : jpeg->stop);
    }
    while (jpeg->status == 0 && marker != SOS) {
        marker = next_marker(jpeg);
        if (jpeg->status == 0) {
            read_segment(jpeg, marker);
        }
    }
    if (jpeg->status != 0) {
        return jpeg->status;
    }
    const tw_jpeg_component *c = jpeg->components;
    jpeg->is_rgb = jpeg->colours == 3 && !jpeg->jfif &&
                   (jpeg->adobe >= 0 ? jpeg->adobe == 0 : c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B');
    lay_out(jpeg, (uint8_t *)band, band_bytes);
    jpeg->until_restart = jpeg->restart_interval;
    return jpeg->status;
}
