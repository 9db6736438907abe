/* host_model.h - the functions of a model that host.c calls. */
#ifndef HOST_MODEL_H
#define HOST_MODEL_H

#include <stdint.h>

/* The callbacks, with the same members as the model's own struct. */
typedef struct {
    void *user;
    int (*read_rows)(void *user, int32_t input, int32_t first, int32_t count, void *destination);
    int (*write_rows)(void *user, int32_t output, int32_t first, int32_t count, const void *source);
} host_io;

typedef struct { int32_t first, count; float values[]; } piece; /* elements of an input or output, in one argument */

/* name: the prefix of the model's functions. memory_bytes: the size of the struct of memories that they take.
 * write_piece and read_piece call write_input and read_output; they are NULL unless compiled with -DTW_FLOATS. */
typedef struct {
    const char *name;
    int64_t memory_bytes;
    int (*init)(const void *memory);
    void (*reset)(const void *memory);
    void *(*input)(const void *memory, int32_t index);
    int (*invoke)(const void *memory, const host_io *io);
    const void *(*output)(const void *memory, int32_t index);
    int (*write_piece)(const void *memory, int32_t index, piece *floats);
    int (*read_piece)(const void *memory, int32_t index, piece *floats);
} host_model_functions;

extern const host_model_functions host_model;

#endif
