/* host_model.c - connects host.c to a model. TW_MODEL is the prefix of its functions, TW_MODEL_HEADER its header.
 *
 * Firmware for an emulator has only write_piece and read_piece of it, which then count as code of the model.
 */
#include "host_model.h"

#include TW_MODEL_HEADER

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define CALL(name) JOIN(TW_MODEL, name)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static int init(const void *memory) { return CALL(init)(memory); }
static void reset(const void *memory) { CALL(reset)(memory); }
static void *input(const void *memory, int32_t index) { return CALL(input)(memory, index); }
static const void *output(const void *memory, int32_t index) { return CALL(output)(memory, index); }

static int invoke(const void *memory, const host_io *io)
{
    const CALL(io) own = {io->user, io->read_rows, io->write_rows};
    return CALL(invoke)(memory, &own);
}

#ifdef TW_FLOATS
int CALL(write_piece)(const void *memory, int32_t index, piece *floats)
{
    return CALL(write_input)(memory, index, floats->first, floats->values, floats->count);
}

int CALL(read_piece)(const void *memory, int32_t index, piece *floats)
{
    return CALL(read_output)(memory, index, floats->first, floats->values, floats->count);
}
#define PIECES CALL(write_piece), CALL(read_piece)
#else
#define PIECES NULL, NULL
#endif

const host_model_functions host_model = {
    TEXT(TW_MODEL), sizeof(CALL(memory)), init, reset, input, invoke, output, PIECES};
