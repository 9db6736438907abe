// Interpreters that share an arena, or follow each other in one; arenas of exactly the size that is needed.
#include <string.h>

#include <initializer_list>

#include "tensorflow/lite/micro/micro_interpreter.h"

extern const unsigned char g_chain[], g_stream[];
static const tflite::MicroOpResolver resolver;
using tflite::MicroInterpreter;

static void Fill(MicroInterpreter &interpreter, int seed)
{
    for (size_t i = 0; i < interpreter.input(0)->bytes; ++i) {
        interpreter.input(0)->data.int8[i] = static_cast<int8_t>(seed * 31 + i * 7);
    }
}

// Run a network on an input, and return its outputs as a number.
static uint64_t Result(MicroInterpreter &interpreter, int seed)
{
    uint64_t sum = interpreter.Invoke() == kTfLiteOk ? 0 : 1u << 31;
    for (size_t i = 0; i < interpreter.outputs_size(); ++i) {
        for (size_t byte = 0; byte < interpreter.output(i)->bytes; ++byte) {
            sum = sum * 31 + interpreter.output(i)->data.uint8[byte];
        }
    }
    Fill(interpreter, seed);
    return sum;
}

// Return the results of three calls of each of two networks, which run in turn.
struct Results {
    uint64_t of[6];
    bool operator==(const Results &other) const { return memcmp(of, other.of, sizeof of) == 0; }
};

static Results InTurn(MicroInterpreter &chain, MicroInterpreter &stream)
{
    Results results;
    for (int i = 0; i < 3; ++i) {
        Fill(chain, i);
        results.of[2 * i] = Result(chain, 5);
        Fill(stream, i);
        results.of[2 * i + 1] = Result(stream, 5);
    }
    return results;
}

int main()
{
    alignas(16) static uint8_t first[4096], second[4096], third[4096];
    const tflite::Model *const chain_model = tflite::GetModel(g_chain), *const stream_model = tflite::GetModel(g_stream);
    int bad = 0, same = 0, enough = 0, too_few = 0;

    MicroInterpreter chain(chain_model, resolver, first, sizeof first), stream(stream_model, resolver, second, sizeof second);
    bad += chain.AllocateTensors() != kTfLiteOk || stream.AllocateTensors() != kTfLiteOk;
    const size_t chain_bytes = chain.arena_used_bytes(), stream_bytes = stream.arena_used_bytes();
    const Results right = InTurn(chain, stream);
    MicroPrintf("the state counts: %d", right.of[1] != right.of[3] && right.of[3] != right.of[5]);
    MicroPrintf("it goes on: %d", !(InTurn(chain, stream) == right));
    stream.Reset();
    MicroPrintf("and begins anew after Reset: %d", InTurn(chain, stream) == right);
    stream.AllocateTensors();
    MicroPrintf("and after AllocateTensors: %d", InTurn(chain, stream) == right && stream.arena_used_bytes() == stream_bytes);
    {
        MicroInterpreter next(stream_model, resolver, second, sizeof second);
        bad += next.AllocateTensors() != kTfLiteOk;
        MicroPrintf("and in a new interpreter: %d", InTurn(chain, next) == right);
    }

    memset(first, 0x5A, sizeof first);
    tflite::MicroAllocator *const allocator = tflite::MicroAllocator::Create(first, sizeof first);
    MicroInterpreter shared(chain_model, resolver, allocator), state(stream_model, resolver, allocator),
        twin(stream_model, resolver, allocator);
    bad += shared.AllocateTensors() != kTfLiteOk || state.AllocateTensors() != kTfLiteOk || twin.AllocateTensors() != kTfLiteOk;
    const Results in_one = InTurn(shared, state);
    MicroPrintf("one arena for three: %d, twin %d", in_one == right, InTurn(shared, twin) == right);
    MicroPrintf("activations are shared: %d", allocator->used_bytes() < chain_bytes + 2 * stream_bytes + 48);

    // by address, each with less of the arena than the one before: TFLite Micro's kept data is at the end, too
    MicroInterpreter a(chain_model, resolver, third, 4096), b(chain_model, resolver, third, 2872),
        c(chain_model, resolver, third, 1648);
    bad += a.AllocateTensors() != kTfLiteOk || b.AllocateTensors() != kTfLiteOk || c.AllocateTensors() != kTfLiteOk;
    for (MicroInterpreter *each : {&a, &b, &c}) {
        Fill(*each, 0);
        bad += Result(*each, 5) != right.of[0];
        same += each->input(0)->data.data == a.input(0)->data.data;
    }
    MicroPrintf("one arena by address: %d, shared by %d", bad == 0, same);

    for (const bool is_stream : {false, true}) {
        const size_t need = is_stream ? stream_bytes : chain_bytes;
        const tflite::Model *const model = is_stream ? stream_model : chain_model;
        for (size_t at = 0; at < 16; ++at) {
            memset(first, 0xA5, sizeof first);
            MicroInterpreter exact(model, resolver, first + at, need + 16);
            enough += exact.AllocateTensors() == kTfLiteOk && exact.arena_used_bytes() == need;
            bad += exact.Invoke() != kTfLiteOk;
            for (size_t i = 0; i < sizeof first; ++i) {
                bad += first[i] != 0xA5 && (i < at || i >= at + need + 16);
            }
        }
        MicroInterpreter aligned(model, resolver, first, need), small(model, resolver, first, need - 1);
        enough += aligned.AllocateTensors() == kTfLiteOk;
        too_few += small.AllocateTensors() == kTfLiteError;
    }
    MicroPrintf("exact arenas: %d enough, %d too small, %d failures", enough, too_few, bad);
    return bad;
}
