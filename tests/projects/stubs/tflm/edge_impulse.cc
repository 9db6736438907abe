// Calls networks as Edge Impulse's SDK calls those that it compiled: through a struct of five functions, a new arena each time.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "chain_samples.h"
#include "edge-impulse-sdk/tensorflow/lite/c/common.h"
#include "stream_samples.h"

typedef struct {
    uint16_t implementation_version;
    TfLiteStatus (*model_init)(void *(*allocate)(size_t, size_t));
    TfLiteStatus (*model_invoke)();
    TfLiteStatus (*model_reset)(void (*release)(void *));
    TfLiteStatus (*model_input)(int, TfLiteTensor *);
    TfLiteStatus (*model_output)(int, TfLiteTensor *);
} ei_config_tflite_eon_graph_t;

#define DECLARED(name)                                      \
    TfLiteStatus name##_init(void *(*)(size_t, size_t));    \
    TfLiteStatus name##_invoke();                           \
    TfLiteStatus name##_reset(void (*)(void *));            \
    TfLiteStatus name##_input(int, TfLiteTensor *);         \
    TfLiteStatus name##_output(int, TfLiteTensor *);        \
    static const ei_config_tflite_eon_graph_t name##_graph = { \
        1, &name##_init, &name##_invoke, &name##_reset, &name##_input, &name##_output}
DECLARED(g_chain);
DECLARED(g_stream);

static size_t aligned_to, allocated, held;

static void *Allocate(size_t align, size_t bytes)
{
    aligned_to = align;
    held += allocated = bytes;
    return memset(malloc(bytes), 0x5A, bytes);
}
static void *NoMemory(size_t, size_t) { return nullptr; }
static void Release(void *at)
{
    held -= allocated;
    free(at);
}

static int Refused(const ei_config_tflite_eon_graph_t &graph)
{
    TfLiteTensor tensor;
    return (graph.model_invoke() == kTfLiteError) + (graph.model_input(0, &tensor) == kTfLiteError)
           + (graph.model_output(0, &tensor) == kTfLiteError);
}

template <class Input, class Output>
static int Run(const char *name, const ei_config_tflite_eon_graph_t &graph, Input inputs, Output outputs, int samples)
{
    int wrong = 0, refused = Refused(graph);
    refused += (graph.model_init(NoMemory) == kTfLiteError) + (graph.model_reset(Release) == kTfLiteOk);
    TfLiteTensor input, output;
    for (int i = 0; i < samples; ++i) {
        wrong += graph.model_init(Allocate) != kTfLiteOk || graph.model_input(0, &input) != kTfLiteOk
                 || graph.model_output(0, &output) != kTfLiteOk;
        memcpy(input.data.int8, inputs[i], input.bytes);
        wrong += graph.model_invoke() != kTfLiteOk || memcmp(output.data.int8, outputs[i], output.bytes) != 0;
        if (i == 0) {
            refused += (graph.model_input(-1, &input) == kTfLiteError) + (graph.model_input(1, &input) == kTfLiteError)
                       + (graph.model_output(-1, &input) == kTfLiteError) + (graph.model_output(2, &input) == kTfLiteError);
            const int *const axes = input.dims->data;
            printf("%s: %d B aligned to %d, input %s[%d, %d, %d, %d] %f %d, ", name, static_cast<int>(allocated),
                   static_cast<int>(aligned_to), input.type == kTfLiteInt8 ? "INT8" : "", axes[0], axes[1], axes[2], axes[3],
                   static_cast<double>(input.params.scale), static_cast<int>(input.params.zero_point));
        }
        wrong += graph.model_reset(Release) != kTfLiteOk;
    }
    refused += Refused(graph);
    printf("%d inferences, %d wrong, %d refused, %d B kept\n", samples, wrong, refused, static_cast<int>(held));
    return wrong;
}

int main()
{
    return Run("chain", g_chain_graph, chain_sample_input_0, chain_sample_output_0, CHAIN_SAMPLES)
           + Run("stream", g_stream_graph, stream_sample_input_0, stream_sample_output_0, 1);
}
