/* host_model.c - connects host.c to a model. TW_MODEL is the prefix of its functions, TW_MODEL_HEADER its header. */
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

const host_model_functions host_model = {TEXT(TW_MODEL), sizeof(CALL(memory)), init, reset, input, invoke, output};
