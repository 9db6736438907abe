/* tw_jpeg.h - decodes a baseline JPEG file line by line; of the picture one row of blocks (8 or 16 lines) is in RAM.
 *
 * Baseline means 8 bits, Huffman codes, one scan: grey, or three colours (YCbCr, or RGB where the file says so), whose blocks
 * are sampled 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1 or alike; restart markers. Values are libjpeg's with its exact integer transform
 * (islow) and colours repeated, not interpolated ("fancy upsampling" off). All else is refused by the numbers below.
 *
 * The file comes through a function that reads bytes, in order, once. It may be any bytes at all: nothing is read or written
 * outside this struct and the band, every loop ends, and no more than `budget` bytes are asked for.
 */
#ifndef TW_JPEG_H
#define TW_JPEG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TW_JPEG_ENDED = -10,       /* the file ends before its picture does */
    TW_JPEG_READ_FAILED = -11, /* the reader gave a number below 0, or more bytes than it was asked for */
    TW_JPEG_BUDGET = -12,      /* the picture needs more bytes than `budget` */
    TW_JPEG_NO_JPEG = -13,     /* the file does not begin as a JPEG file does */
    TW_JPEG_DAMAGED = -14,     /* a segment, a code or a value that no encoder writes */
    TW_JPEG_PROGRESSIVE = -15, /* a progressive file */
    TW_JPEG_NOT_BASELINE = -16, /* arithmetic codes, 12 bits, lossless, extended or hierarchical, or no height */
    TW_JPEG_COLOURS = -17,     /* neither 1 nor 3 components: CMYK and the like */
    TW_JPEG_SAMPLING = -18,    /* blocks of a colour are not 1, 2 or 4 times as large as those of another */
    TW_JPEG_SCANS = -19,       /* each colour in a scan of its own */
    TW_JPEG_TOO_LARGE = -20,   /* the band has not enough bytes for a picture of this width, or with these samplings */
    TW_JPEG_ORDER = -21,       /* lines were asked for out of order, or beyond the last one */
    TW_JPEG_OTHER_SIZE = -22   /* the picture has not the size that was expected; of NAME_source_begin */
};

#ifndef TW_JPEG_INPUT_BYTES
#define TW_JPEG_INPUT_BYTES 256 /* read at a time */
#endif

/* Bytes of the band for pictures up to so wide: for colours 4:4:4, 4:2:2, 4:2:0 and 4:1:1, and for grey out of them. Other
   samplings may need up to 32 bytes for each pixel of the width rounded up to a multiple of 32. */
#define TW_JPEG_BAND_BYTES(width, channels) (((width) + 31) / 32 * 32 * ((channels) == 1 ? 16 : 24))

/* Reads up to `count` bytes of the file; returns how many, 0 at its end, below 0 for an error. */
typedef int32_t (*tw_jpeg_reader)(void *user, uint8_t *destination, int32_t count);

typedef struct {
    uint16_t quick[256]; /* by the next 8 bits: length of the code * 256 + symbol, or 0 for a longer code */
    uint32_t limit[17];  /* by length: codes of this length, as the highest of 16 bits, lie below it */
    int32_t offset[17];  /* from a code of this length to its symbol's place */
    uint8_t symbols[256];
    uint8_t is_there;
} tw_jpeg_huffman;

typedef struct {
    uint8_t *pixels;                      /* its lines in the band; NULL: not kept */
    int32_t stride, predicted;            /* bytes from line to line; of DC */
    int32_t shift_h, shift_w;             /* as powers of two: how often a line and a pixel stand for one of the picture */
    uint8_t id, h, w, quantiser, dc, ac;  /* h, w: blocks in an MCU */
} tw_jpeg_component;

typedef struct {
    int32_t height, width, colours;       /* of the picture; colours: 1 or 3 */
    int32_t channels;                     /* of the lines: 1 or 3 */
    int32_t is_rgb;                       /* the file's colours are red, green, blue */
    int32_t status;                       /* 0, or the error that ended it */
    int32_t band_lines, mcus, mcu_rows;   /* lines of an MCU, MCUs in a row, rows of MCUs */
    int32_t next_row, next_line;          /* of MCUs that was not decoded; the first line that may be asked for */
    int32_t restart_interval, until_restart, next_restart;
    int32_t jfif, adobe;                  /* whether the file says JFIF; Adobe's number of its colours, or -1 */
    tw_jpeg_component components[3];
    tw_jpeg_huffman dc[2], ac[2];
    uint8_t quantisers[4][64];            /* in the order of the file */
    uint8_t has_quantiser[4];
    tw_jpeg_reader read;
    void *user;
    uint32_t budget;
    uint32_t bits;                        /* the next ones, from the highest on */
    int32_t bit_count, stop;              /* stop: why there are no more bytes, or 0 */
    int32_t marker;                       /* the one that ended the bits, or 0 */
    int32_t at, filled;                   /* in input */
    uint8_t input[TW_JPEG_INPUT_BYTES];
} tw_jpeg;

/* Read a file up to its picture. channels: of the lines, 1 (Y, or grey of red, green, blue) or 3 (red, green, blue).
   Return 0 or an error; then height and width say how large the picture is. */
int32_t tw_jpeg_begin(tw_jpeg *jpeg, tw_jpeg_reader read, void *user, uint32_t budget, int32_t channels, void *band,
                      int32_t band_bytes);

/* Write line `line` of the picture, width * channels bytes; lines in order, those left out are passed over.
   `user` is the tw_jpeg: a tw_read_line of tw_row_source.h. Return 0 or an error, which stays. */
int32_t tw_jpeg_line(void *user, int32_t line, uint8_t *pixels);

#ifdef __cplusplus
}
#endif

#endif
