/* tw_row_source.h - brings the rows of a network's input out of a camera's lines, or of lines that something else decodes.
 *
 * Lines are cropped, converted to grey or red, green, blue, resized (tw_resizer.h), and looked up in a table of the network's
 * int8 values. A few lines are in RAM, never the picture. Nothing is in floats, nothing on the heap.
 */
#ifndef TW_ROW_SOURCE_H
#define TW_ROW_SOURCE_H

#include "tw_resizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a line's pixels lie. rgb565: 16 bits, red highest, the low byte first, or (be) the high one, as most cameras send.
   yuyv, uyvy: two pixels in 4 bytes, Y of 0 .. 255 and colours around 128, as in JFIF. */
enum { TW_LINE_GREY, TW_LINE_RGB, TW_LINE_BGR, TW_LINE_RGB565, TW_LINE_RGB565_BE, TW_LINE_YUYV, TW_LINE_UYVY };

#define TW_LINE_BYTES(format, width) ((width) * ((format) == TW_LINE_GREY ? 1 : (format) <= TW_LINE_BGR ? 3 : 2))

/* A picture as it comes, what is cut from it, and what the network takes. Of YUYV and UYVY the width must be even. */
typedef struct {
    int32_t format, height, width;
    int32_t top, left, crop_height, crop_width;
    int32_t out_height, out_width, channels; /* 1: grey, 3: red, green, blue */
    const int8_t *values;                    /* 256: what the network takes for 0 .. 255 */
} tw_picture;

/* Lines whose pixels are already as the network wants them are read where the resizer holds them; else there is one more. */
#define TW_IS_PLAIN(format, channels) ((format) == ((channels) == 1 ? TW_LINE_GREY : TW_LINE_RGB))
#define TW_ROW_SOURCE_BYTES(format, width, crop_height, crop_width, out_height, out_width, channels)             \
    (TW_RESIZER_SUM_BYTES(out_width, channels) +                                                                 \
     (TW_IS_PLAIN(format, channels)                                                                              \
          ? TW_RESIZER_LINES(crop_height, out_height) * (width) * (channels)                                     \
          : TW_RESIZER_LINES(crop_height, out_height) * (crop_width) * (channels) + TW_LINE_BYTES(format, width)))

/* Reads line `line` of the picture, TW_LINE_BYTES of it: 0, or below 0 what the network's invoke shall return. Lines come in
   order, each once; those above and below the crop are not asked for. */
typedef int32_t (*tw_read_line)(void *user, int32_t line, uint8_t *destination);

typedef struct {
    const tw_picture *picture;
    tw_read_line read;
    void *user;
    tw_resizer resizer;
    uint8_t *memory, *line;
    int32_t next_row;
} tw_row_source;

/* Begin; once is enough, for row 0 begins a new picture. memory: TW_ROW_SOURCE_BYTES, at a multiple of 4.
   Return 0, or -1 where memory is missing, too small or misaligned, or the picture cannot be. */
int32_t tw_row_source_begin(tw_row_source *source, const tw_picture *picture, tw_read_line read, void *user, void *memory,
                            int32_t bytes);

/* Write rows of the network's input: a read_rows callback, `user` is the tw_row_source. Rows must be asked for in order.
   Return 0, what the reader returned, or -1 for rows out of order. */
int tw_row_source_rows(void *user, int32_t input, int32_t first, int32_t count, void *destination);

/* Convert `count` pixels of a line from pixel `first` on; 1 channel: grey, 3: red, green, blue. */
void tw_convert_line(int32_t format, const uint8_t *line, int32_t first, int32_t count, int32_t channels, uint8_t *pixels);

#ifdef __cplusplus
}
#endif

#endif
