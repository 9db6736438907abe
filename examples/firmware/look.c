/* main.c - looks: a JPEG file comes in byte by byte, goes row by row through decoder, resize and network, and boxes come out.
 *
 * On a computer the file is the standard input. As firmware it is the one that QEMU is told, see README.md. The boxes lie where
 * the decoder was, which is done by then.
 */
#include <stddef.h>
#include <stdint.h>

@{includes}
#include "@{name}_source.h"
#include "boxes.h"

@{host}
enum { MOST_BYTES = @{budget}, THRESHOLD = @{threshold} };

#if BOXES_ROWS * BOXES_COLUMNS * BOXES_ANCHORS * (5 + BOXES_SCORES) != @{NAME}_OUTPUT_0_ELEMENTS
#error "these boxes are not those of the network's head"
#endif

@{arena}static union {
    @{name}_source source;
    tw_box boxes[BOXES_MOST];
} shared;

@{pictures}
@{show_boxes}
int main(void)
{
    const @{name}_io io = {.user = &shared.source.rows, .read_rows = tw_row_source_rows};
    int32_t failed = @{name}_init(&@{memory});
    failed = failed != 0 ? failed : @{name}_source_begin(&shared.source, read_file, NULL, MOST_BYTES);
    failed = failed != 0 ? failed : @{name}_invoke(&@{memory}, &io);
    if (failed == 0) {
        show_boxes(@{name}_output(&@{memory}, 0));
    }
    return ended(failed);
}
