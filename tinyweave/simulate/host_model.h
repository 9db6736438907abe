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

/* name: the prefix of the model's functions. memory_bytes: the size of the struct of memories that they take. */
typedef struct {
    const char *name;
    int64_t memory_bytes;
    int (*init)(const void *memory);
    void (*reset)(const void *memory);
    void *(*input)(const void *memory, int32_t index);
    int (*invoke)(const void *memory, const host_io *io);
    const void *(*output)(const void *memory, int32_t index);
} host_model_functions;

extern const host_model_functions host_model;

#endif
