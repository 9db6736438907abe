// Every fault that an interpreter reports; Python compares the printed lines.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

extern const unsigned char g_chain[];
alignas(16) static uint8_t arena[1024];
static const tflite::MicroOpResolver resolver;

// Print whether a model is refused.
static void Try(const char *what, const void *model, size_t size = sizeof arena, bool preserves = false)
{
    tflite::MicroInterpreter interpreter(tflite::GetModel(model), resolver, arena, size, nullptr, nullptr, preserves);
    MicroPrintf("%s:", what);
    const TfLiteStatus status = interpreter.AllocateTensors();
    const TfLiteStatus invoked = interpreter.Invoke();
    MicroPrintf("status %d, Invoke %d, %d inputs", status, invoked, static_cast<int>(interpreter.inputs_size()));
}

static const unsigned char *Read(const char *path)
{
    static unsigned char file[1 << 16];
    FILE *const stream = fopen(path, "rb");
    if (stream == nullptr || fread(file, 1, sizeof file, stream) == 0) {
        exit(70);
    }
    fclose(stream);
    return file;
}

int main(int, char **argv)
{
    unsigned char array[16], file[1 << 16];
    memcpy(array, g_chain, sizeof array);
    memcpy(file, Read(argv[1]), sizeof file);
    Try("the file itself", file);
    file[atoi(argv[2]) - 1] ^= 1;
    Try("a file with other weights", file);
    unsigned char *const pages = static_cast<unsigned char *>(mmap(nullptr, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(pages + (1 << 16), 1 << 16, PROT_NONE);
    memcpy(pages + (1 << 16) - 64, Read(argv[3]), 64);
    Try("another file", pages + (1 << 16) - 64); // no byte behind its first 64 can be read
    array[8] ^= 1;
    Try("another array", array);
    Try("no model", "This is a text, and no model.");
    Try("no pointer", nullptr);
    Try("tensors preserved", g_chain, sizeof arena, true);
    Try("a small arena", g_chain, 160);
    Try("no arena", g_chain, 0);

    tflite::MicroInterpreter lost(tflite::GetModel(g_chain), resolver, static_cast<tflite::MicroAllocator *>(nullptr));
    MicroPrintf("no allocator:");
    const TfLiteStatus allocated = lost.AllocateTensors();
    MicroPrintf("status %d, Reset %d, used %d", allocated, lost.Reset(), static_cast<int>(lost.arena_used_bytes()));
    if (tflite::MicroAllocator::Create(arena, 8) != nullptr || tflite::MicroAllocator::Create(nullptr, 4096) != nullptr) {
        MicroPrintf("an allocator in 8 bytes, or at no address");
    }
    tflite::MicroInterpreter chain(tflite::GetModel(g_chain), resolver, arena, sizeof arena);
    MicroPrintf("before AllocateTensors: %d", chain.input(0) == nullptr);
    chain.AllocateTensors();
    const TfLiteTensor *const input = chain.input(1), *const output = chain.output(7);
    MicroPrintf("out of range: %d %d", input == nullptr, output == nullptr);
    tflite::MicroMutableOpResolver<1> one;
    const TfLiteStatus first = one.AddConv2D(), second = one.AddRfft();
    MicroPrintf("resolver: %d %d", first, second);
    return 0;
}
