// tflm.cpp - the interpreter: finds the network of a model, divides the arena, and calls the network's C.
#include "tflm.h"

#include <stdio.h>
#include <string.h>

#include "networks.h"
#ifdef ARDUINO
#include <Arduino.h>
#endif

#define TW_TFLM_WEAK __attribute__((weak)) // firmware may define it
using tflite::MicroAllocator;
using tflite::MicroInterpreter;

static const size_t kAlign = 16;
static void (*print_by)(const char *text) = nullptr;

static size_t Rounded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

static unsigned Number(size_t bytes) { return static_cast<unsigned>(bytes); }

extern "C" {
void RegisterDebugLogCallback(void (*print)(const char *text)) { print_by = print; }

TW_TFLM_WEAK void DebugLog(const char *format, va_list arguments)
{
#ifdef TF_LITE_STRIP_ERROR_STRINGS
    (void)format, (void)arguments;
#else
#ifndef ARDUINO
    if (print_by == nullptr) {
        vfprintf(stderr, format, arguments);
        return;
    }
#endif
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    if (print_by != nullptr) {
        print_by(text);
        return;
    }
#ifdef ARDUINO
    Serial.print(text);
#endif
#endif
}

const char *TfLiteTypeGetName(TfLiteType type)
{
    static const char *const names[] = {"NOTYPE",  "FLOAT32", "INT32",   "UINT8",      "INT64",  "STRING",   "BOOL",
                                        "INT16",   "COMPLEX64", "INT8",  "FLOAT16",    "FLOAT64", "COMPLEX128", "UINT64",
                                        "RESOURCE", "VARIANT", "UINT32", "UINT16",     "INT4"};
    return static_cast<size_t>(type) < sizeof names / sizeof *names ? names[type] : "Unknown type";
}
}

static void Log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    DebugLog(format, arguments);
    va_end(arguments);
}

void VMicroPrintf(const char *format, va_list arguments)
{
    DebugLog(format, arguments);
    Log("\r\n");
}

void MicroPrintf(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    VMicroPrintf(format, arguments);
    va_end(arguments);
}

int MicroVsnprintf(char *text, size_t bytes, const char *format, va_list arguments)
{
    return vsnprintf(text, bytes, format, arguments);
}

int MicroSnprintf(char *text, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int written = MicroVsnprintf(text, bytes, format, arguments);
    va_end(arguments);
    return written;
}

namespace tflite {

TW_TFLM_WEAK void InitializeTarget()
{
#ifdef ARDUINO
    Serial.begin(9600);
#endif
}

TW_TFLM_WEAK uint32_t ticks_per_second() { return 0; }
TW_TFLM_WEAK uint32_t GetCurrentTimeTicks() { return 0; }

int ErrorReporter::Report(const char *format, va_list arguments)
{
    VMicroPrintf(format, arguments);
    return 0;
}

int ErrorReporter::Report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int code = Report(format, arguments);
    va_end(arguments);
    return code;
}

uint32_t MicroProfiler::BeginEvent(const char *tag)
{
    tag_ = tag;
    begin_ = GetCurrentTimeTicks();
    return events_++;
}

void MicroProfiler::EndEvent(uint32_t) { ticks_ += GetCurrentTimeTicks() - begin_; }

void MicroProfiler::Log() const { MicroPrintf("%s: %u calls, %u ticks", tag_, Number(events_), Number(ticks_)); }

int ElementCount(const TfLiteIntArray &dims)
{
    int count = 1;
    for (int axis = 0; axis < dims.size; ++axis) {
        count *= dims.data[axis];
    }
    return count;
}

MicroAllocator::MicroAllocator(uint8_t *arena, size_t bytes)
{
    const size_t at = reinterpret_cast<uintptr_t>(arena), lost = Rounded(at) - at;
    const size_t left = arena == nullptr || bytes < lost ? 0 : (bytes - lost) / kAlign * kAlign;
    begin_ = arena + (left == 0 ? 0 : lost);
    kept_ = end_ = begin_ + left;
}

MicroAllocator *MicroAllocator::Create(uint8_t *arena, size_t bytes)
{
    MicroAllocator made(arena, bytes);
    if (!made.Take(0, sizeof made)) {
        return nullptr;
    }
    memcpy(made.kept_, &made, sizeof made);
    return reinterpret_cast<MicroAllocator *>(made.kept_);
}

// Reserve bytes that interpreters share, and bytes that the caller keeps, at kept_.
bool MicroAllocator::Take(size_t activations, size_t kept)
{
    const size_t most = Rounded(activations) > activations_ ? Rounded(activations) : activations_;
    if (most + Rounded(kept) > static_cast<size_t>(kept_ - begin_)) {
        return false;
    }
    activations_ = most;
    kept_ -= Rounded(kept);
    return true;
}

void MicroAllocator::PrintAllocations() const
{
    const unsigned kept = Number(static_cast<size_t>(end_ - kept_));
    MicroPrintf("tinyweave: %u B of arena: %u B activations, %u B kept", Number(used_bytes()), Number(activations_), kept);
}

static uint64_t Hash(const uint8_t *bytes, size_t count)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    }
    return hash;
}

struct Identity {
    bool is_model, is_rewritten; // an array that an export wrote has the hash of the .tflite file in place of its contents
    uint64_t hash;               // of the whole file if it is rewritten, else of its head
};

static Identity IdentityOf(const void *model)
{
    const uint8_t *const at = static_cast<const uint8_t *>(model);
    if (at == nullptr || memcmp(at + 4, "TFL3", 4) != 0) {
        return {false, false, 0};
    }
    uint32_t root;
    Identity identity = {true, false, 0};
    memcpy(&root, at, sizeof root);
    identity.is_rewritten = root == 0; // offset of a file's first table, which is never 0
    if (identity.is_rewritten) {
        memcpy(&identity.hash, at + 8, sizeof identity.hash);
    } else {
        identity.hash = Hash(at, TW_TFLM_HEAD);
    }
    return identity;
}

const tw_tflm_network *MicroInterpreter::Find(const Model *model)
{
    const Identity identity = IdentityOf(model);
    const uint8_t *const file = reinterpret_cast<const uint8_t *>(model);
    for (const tw_tflm_network *const *at = tw_tflm_networks; *at != nullptr && identity.is_model; ++at) {
        const tw_tflm_network &network = **at;
        if (identity.hash == (identity.is_rewritten ? network.file_hash : network.head_hash)
            && (identity.is_rewritten || Hash(file, network.file_bytes) == network.file_hash)) {
            return &network;
        }
    }
    return nullptr;
}

static void PrintHash(const char *format, const char *what, uint64_t hash)
{
    MicroPrintf(format, what, static_cast<unsigned long>(hash >> 32), static_cast<unsigned long>(hash & 0xFFFFFFFFu));
}

static void PrintUnknown(const Model *model)
{
    const Identity identity = IdentityOf(model);
    if (!identity.is_model) {
        MicroPrintf("tinyweave: the model is no .tflite file");
        return;
    }
    PrintHash("tinyweave: the model (%s: %08lx%08lx) is not in this library, which has",
              identity.is_rewritten ? "array" : "first 64 bytes", identity.hash);
    for (const tw_tflm_network *const *at = tw_tflm_networks; *at != nullptr; ++at) {
        PrintHash("  %s: %08lx%08lx", (*at)->name, identity.is_rewritten ? (*at)->file_hash : (*at)->head_hash);
    }
    MicroPrintf("  Export this model: tinyweave export MODEL --format tflm");
}

size_t MicroInterpreter::inputs_size() const { return network_ == nullptr ? 0 : static_cast<size_t>(network_->inputs); }

size_t MicroInterpreter::outputs_size() const { return network_ == nullptr ? 0 : static_cast<size_t>(network_->outputs); }

// Give the tensors and the network their places in the arena; return false, with a message, if it is too small.
bool MicroInterpreter::Place()
{
    const size_t count = inputs_size() + outputs_size(), of_tensors = Rounded(count * sizeof(TfLiteTensor));
    const size_t of_network = Rounded(network_->arena_bytes), kept = of_tensors + (network_->has_state ? of_network : 0);
    const size_t shared = of_network + of_tensors - kept;
    if (allocator_ == nullptr || !allocator_->Take(shared, kept)) {
        const size_t left = allocator_ == nullptr ? 0 : static_cast<size_t>(allocator_->kept_ - allocator_->begin_);
        MicroPrintf("tinyweave: %s needs %u bytes of arena, but %u are left; make the arena larger", network_->name,
                    Number(shared + kept), Number(left));
        return false;
    }
    arena_ = network_->has_state ? allocator_->kept_ + of_tensors : allocator_->begin_;
    tensors_ = reinterpret_cast<TfLiteTensor *>(allocator_->kept_);
    for (size_t i = 0; i < count; ++i) {
        tensors_[i] = tw_tflm_tensor_of(*network_, arena_, static_cast<int32_t>(i));
    }
    return true;
}

TfLiteStatus MicroInterpreter::AllocateTensors()
{
    status_ = kTfLiteError;
    if (network_ == nullptr) {
        PrintUnknown(model_);
        return status_;
    }
    if (preserves_) {
        MicroPrintf("tinyweave: tensors inside the network cannot be preserved; leave out preserve_all_tensors");
        return status_;
    }
    if (tensors_ == nullptr && !Place()) {
        return status_;
    }
    return status_ = network_->init(arena_) == 0 ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus MicroInterpreter::Invoke()
{
    if (status_ != kTfLiteOk && AllocateTensors() != kTfLiteOk) {
        return kTfLiteError;
    }
    const uint32_t event = profiler_ == nullptr ? 0 : profiler_->BeginEvent(network_->name);
    const int code = network_->invoke(arena_);
    if (profiler_ != nullptr) {
        profiler_->EndEvent(event);
    }
    return code == 0 ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus MicroInterpreter::Reset()
{
    return status_ == kTfLiteOk && network_->init(arena_) == 0 ? kTfLiteOk : kTfLiteError;
}

TfLiteTensor *MicroInterpreter::Tensor(size_t index, size_t count, size_t before, const char *what) const
{
    if (tensors_ == nullptr || index >= count) {
        MicroPrintf(tensors_ == nullptr ? "tinyweave: %s %u has no place before AllocateTensors()"
                                        : "tinyweave: there is no %s %u, but %u", what, Number(index), Number(count));
        return nullptr;
    }
    return tensors_ + before + index;
}

}
