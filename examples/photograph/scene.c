/* scene.c - a program's loop as an emulator can call it: a JPEG file comes byte by byte, its picture goes through the network.
 *
 * The arena and the source lie in one memory, so that what the emulator gives is all the RAM there is, but for the stack.
 */
#include "scene.h"

#include <string.h>

#include "photo.h"
#include "photo_source.h"

typedef struct { const photo_io *host; int32_t at; } file;

static photo_memory arena_of(void *memory) { return (photo_memory){.sram = {memory, PHOTO_SRAM_BYTES}}; }

/* Bytes of the file, which the emulator brings as rows of one byte. */
static int32_t read_file(void *user, uint8_t *destination, int32_t count)
{
    file *f = user;
    const int32_t rest = SCENE_FILE_BYTES - f->at;
    count = count < rest ? count : rest;
    if (count > 0 && f->host->read_rows(f->host->user, 0, f->at, count, destination) != 0) {
        return -1;
    }
    f->at += count;
    return count;
}

int32_t scene_init(void *const *memory)
{
    const photo_memory arena = arena_of(*memory);
    return photo_init(&arena);
}

int32_t scene_reset(void *const *memory)
{
    (void)memory;
    return 0;
}

void *scene_input(void *const *memory, int32_t index)
{
    (void)memory;
    (void)index;
    return NULL; /* by rows */
}

void *scene_output(void *const *memory, int32_t index)
{
    const photo_memory arena = arena_of(*memory);
    return photo_output(&arena, index);
}

int32_t scene_invoke(void *const *memory, const void *host)
{
    const photo_memory arena = arena_of(*memory);
    photo_source *source = (photo_source *)(void *)((uint8_t *)*memory + SCENE_SOURCE_AT);
    const photo_io io = {.read_rows = tw_row_source_rows, .user = &source->rows};
    file f = {host, 0};
    const int32_t failed = photo_source_begin(source, read_file, &f, SCENE_FILE_BYTES);
    return failed != 0 ? failed : photo_invoke(&arena, &io);
}
