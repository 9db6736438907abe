/* main.c - a cascade: a small network says whether there is something to find in a picture; only then a detector looks for it.
 *
 * A JPEG file comes in byte by byte, once for each network that runs. On a computer it is the standard input. As firmware it is
 * the one that QEMU is told, see README.md. Both networks have one arena, and both sources and the boxes one place beside it.
 */
#include <stddef.h>
#include <stdint.h>

#include "@{first}.h"
#include "@{first}_source.h"
#include "@{name}.h"
#include "@{name}_source.h"
#include "boxes.h"

@{host}
enum { MOST_BYTES = @{budget}, LABEL = @{label}, AT_LEAST = @{at_least}, THRESHOLD = @{threshold} };

#if BOXES_ROWS * BOXES_COLUMNS * BOXES_ANCHORS * (5 + BOXES_SCORES) != @{NAME}_OUTPUT_0_ELEMENTS
#error "these boxes are not those of the detector's head"
#endif
#if @{label} >= @{FIRST}_OUTPUT_0_ELEMENTS
#error "the first network has no such class"
#endif

static union {
    uint8_t first[@{FIRST}_SRAM_BYTES], second[@{NAME}_SRAM_BYTES];
} arena __attribute__((aligned(@{FIRST}_ALIGN > @{NAME}_ALIGN ? @{FIRST}_ALIGN : @{NAME}_ALIGN)));
static const @{first}_memory first_memory = {.sram = {&arena, sizeof arena}};
static const @{name}_memory second_memory = {.sram = {&arena, sizeof arena}};
static union {
    @{first}_source first;
    @{name}_source second;
    tw_box boxes[BOXES_MOST];
} shared;

@{pictures}
@{show_boxes}
/* Look whether there is something to find; give the score of it. */
static int32_t ask(int8_t *score)
{
    const @{first}_io io = {.user = &shared.first.rows, .read_rows = tw_row_source_rows};
    int32_t failed = @{first}_init(&first_memory);
    failed = failed != 0 ? failed : @{first}_source_begin(&shared.first, read_file, NULL, MOST_BYTES);
    failed = failed != 0 ? failed : @{first}_invoke(&first_memory, &io);
    *score = ((const int8_t *)@{first}_output(&first_memory, 0))[LABEL];
    return failed;
}

static int32_t find(void)
{
    const @{name}_io io = {.user = &shared.second.rows, .read_rows = tw_row_source_rows};
    int32_t failed = firmware_rewind();
    failed = failed != 0 ? failed : @{name}_init(&second_memory);
    failed = failed != 0 ? failed : @{name}_source_begin(&shared.second, read_file, NULL, MOST_BYTES);
    return failed != 0 ? failed : @{name}_invoke(&second_memory, &io);
}

int main(void)
{
    int8_t score;
    int32_t failed = ask(&score);
    if (failed == 0) {
        say("score ", score);
        if (score >= AT_LEAST) {
            print("\n");
            failed = find();
            if (failed == 0) {
                show_boxes(@{name}_output(&second_memory, 0));
            }
        }
    }
    return ended(failed);
}
