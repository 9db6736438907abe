/* networks.h - what the interpreter knows of a network: its identity, the arena that it needs, its tensors and functions. */
#ifndef TINYWEAVE_TFLM_NETWORKS_H
#define TINYWEAVE_TFLM_NETWORKS_H

#include "tensorflow/lite/core/c/common.h"

enum { TW_TFLM_HEAD = 64 }; /* bytes at the start of a .tflite file, which hold the sizes of its parts */

typedef struct {
    TfLiteType type;
    uint32_t bytes;
    const int *dims; /* the number of axes, then the length of each */
    struct { int size; float data[1]; } scale;
    struct { int size; int data[1]; } zero_point;
    TfLiteAffineQuantization affine; /* points to the two before */
} tw_tflm_tensor;

typedef struct tw_tflm_network {
    const char *name;
    const tw_tflm_tensor *tensors; /* of the inputs, then of the outputs */
    int (*init)(void *arena);
    void *(*input)(void *arena, int32_t index);
    const void *(*output)(void *arena, int32_t index);
    int (*invoke)(void *arena);
    uint32_t arena_bytes;
    bool has_state; /* between two calls */
    int32_t inputs, outputs;
    uint32_t file_bytes;
    uint64_t file_hash, head_hash; /* FNV-1a of the .tflite file, and of its first TW_TFLM_HEAD bytes */
} tw_tflm_network;

#ifdef __cplusplus
extern "C" {
#endif
extern const tw_tflm_network *const tw_tflm_networks[]; /* ends with NULL */
#ifdef __cplusplus
}

/* Return tensor `i` of a network in `arena`, where outputs follow inputs. */
inline TfLiteTensor tw_tflm_tensor_of(const tw_tflm_network &network, void *arena, int32_t i)
{
    const tw_tflm_tensor &from = network.tensors[i];
    TfLiteTensor to = TfLiteTensor();
    to.type = from.type;
    to.bytes = from.bytes;
    to.dims = reinterpret_cast<TfLiteIntArray *>(const_cast<int *>(from.dims));
    to.data.data = i < network.inputs ? network.input(arena, i) : const_cast<void *>(network.output(arena, i - network.inputs));
    to.params.scale = from.scale.data[0];
    to.params.zero_point = from.zero_point.data[0];
    if (from.scale.size != 0) {
        to.quantization.type = kTfLiteAffineQuantization;
        to.quantization.params = const_cast<TfLiteAffineQuantization *>(&from.affine);
    }
    return to;
}
#endif

/* Row `i` of the array `rows`; `steps` is the scale, 0 for tensors that are not quantised. */
#define TW_TFLM_TENSOR(rows, i, kind, size, shape, steps, zero)             \
    {kind, size, shape, {(steps) > 0.0f, {steps}}, {(steps) > 0.0f, {zero}}, \
     {(TfLiteFloatArray *)&rows[i].scale, (TfLiteIntArray *)&rows[i].zero_point, 0}}

/* The description of the model `m`, whose arena of `size` bytes is its only memory; the fields after arena_bytes follow. */
#define TW_TFLM_NETWORK(m, size, ...)                                                                                      \
    static int init_##m(void *a) { const m##_memory at = {{a, size}}; return m##_init(&at); }                              \
    static void *input_##m(void *a, int32_t i) { const m##_memory at = {{a, size}}; return m##_input(&at, i); }            \
    static const void *output_##m(void *a, int32_t i) { const m##_memory at = {{a, size}}; return m##_output(&at, i); }    \
    static int invoke_##m(void *a) { const m##_memory at = {{a, size}}; return m##_invoke(&at, NULL); }                    \
    static const tw_tflm_network network_##m = {                                                                           \
        #m, tensors_##m, init_##m, input_##m, output_##m, invoke_##m, size, __VA_ARGS__}

#endif
