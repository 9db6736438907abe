// Firmware as it is written for TFLite Micro: runs two networks on samples, and prints whether the outputs are the reference's.
#include <stdio.h>
#include <string.h>

#include "chain_samples.h"
#include "stream_samples.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_log.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/system_setup.h"
#include "tensorflow/lite/schema/schema_generated.h"

extern const unsigned char g_chain[], g_stream[];

#ifdef TW_FIRMWARE
extern "C" void print(const char *text); // of startup.c
extern "C" void *_sbrk(int) { return reinterpret_cast<void *>(-1); }
extern "C" void DebugLog(const char *format, va_list arguments)
{
    char text[128];
    vsnprintf(text, sizeof text, format, arguments);
    print(text);
}
#endif

namespace {
alignas(16) uint8_t chain_arena[1024], stream_arena[1024];

template <int kInputs, int kOutputs>
int Run(tflite::MicroInterpreter &interpreter, const void *(*input)(int, int), const void *(*output)(int, int), int samples)
{
    int wrong = 0;
    for (int sample = 0; sample < samples; ++sample) {
        for (int i = 0; i < kInputs; ++i) {
            memcpy(interpreter.input(i)->data.int8, input(sample, i), interpreter.input(i)->bytes);
        }
        if (interpreter.Invoke() != kTfLiteOk) {
            return 1000;
        }
        for (int i = 0; i < kOutputs; ++i) {
            wrong += memcmp(interpreter.output(i)->data.data, output(sample, i), interpreter.output(i)->bytes) != 0;
        }
    }
    return wrong;
}

const void *ChainInput(int sample, int) { return chain_sample_input_0[sample]; }
const void *ChainOutput(int sample, int) { return chain_sample_output_0[sample]; }
const void *StreamInput(int sample, int) { return stream_sample_input_0[sample]; }
const void *StreamOutput(int sample, int index)
{
    return index == 0 ? static_cast<const void *>(stream_sample_output_0[sample]) : stream_sample_output_1[sample];
}

void Print(const char *what, const TfLiteTensor *tensor)
{
    MicroPrintf("%s: %s, %d bytes, %d axes, the last %d, scale %d/1000000, zero %d", what, TfLiteTypeGetName(tensor->type),
                static_cast<int>(tensor->bytes), tensor->dims->size, tensor->dims->data[tensor->dims->size - 1],
                static_cast<int>(tensor->params.scale * 1e6f + 0.5f), static_cast<int>(tensor->params.zero_point));
    const auto *affine = static_cast<const TfLiteAffineQuantization *>(tensor->quantization.params);
    if (affine->scale->data[0] != tensor->params.scale || affine->zero_point->data[0] != tensor->params.zero_point) {
        MicroPrintf("the two descriptions of the quantisation differ");
    }
}
}

int main()
{
    tflite::InitializeTarget();
    static tflite::MicroMutableOpResolver<5> resolver;
    if (resolver.AddConv2D() != kTfLiteOk || resolver.AddDepthwiseConv2D(tflite::Register_DEPTHWISE_CONV_2D_INT8()) != kTfLiteOk) {
        return 1;
    }
    const tflite::Model *const model = tflite::GetModel(g_chain);
    if (model->version() != TFLITE_SCHEMA_VERSION) {
        return 1;
    }
    static tflite::MicroInterpreter chain(model, resolver, chain_arena, sizeof chain_arena);
    tflite::MicroInterpreter stream(tflite::GetModel(g_stream), resolver, stream_arena, sizeof stream_arena);
    if (chain.AllocateTensors() != kTfLiteOk || stream.AllocateTensors() != kTfLiteOk) {
        return 1;
    }
    Print("input", chain.input(0));
    Print("output", chain.output(0));
    MicroPrintf("used %d and %d, tensors %d and %d", static_cast<int>(chain.arena_used_bytes() - 2 * sizeof(TfLiteTensor)) / 16 * 16,
                static_cast<int>(stream.arena_used_bytes() - 3 * sizeof(TfLiteTensor)) / 16 * 16,
                static_cast<int>(chain.inputs_size() + chain.outputs_size()), static_cast<int>(stream.outputs_size()));
    const int wrong = Run<1, 1>(chain, ChainInput, ChainOutput, CHAIN_SAMPLES)
                      + Run<1, 2>(stream, StreamInput, StreamOutput, STREAM_SAMPLES);
    MicroPrintf("wrong outputs: %d", wrong);
    return wrong != 0;
}
