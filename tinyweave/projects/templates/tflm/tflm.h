// tflm.h - an interface compatible with TFLite Micro for the networks of this library, which tinyweave compiled to C.
//
// All headers below tensorflow/ include this file. Programs that were written for TFLite Micro since 2020 build with it
// unchanged. Ops are part of the C, so that op resolvers only count, and kernels cannot be registered.
#ifndef TINYWEAVE_TFLM_H
#define TINYWEAVE_TFLM_H

#ifdef TENSORFLOW_LITE_MICRO_MICRO_INTERPRETER_H_
#error "TFLite Micro's own headers are in the include path, too: remove the old library from the project"
#endif

#ifdef __GNUC__
#pragma GCC system_header // the warnings of the firmware's own flags do not apply here
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/lite/core/c/common.h"
#if defined(__has_include) && __has_include(<algorithm>) // firmware relies on these; some compilers for small cores lack them
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>
#endif

#ifndef TFLITE_SCHEMA_VERSION
#define TFLITE_SCHEMA_VERSION (3)
#endif

#define TFLITE_CHECK(is_true) ((is_true) ? (void)0 : ::abort())
#define TFLITE_CHECK_EQ(a, b) TFLITE_CHECK((a) == (b))
#define TFLITE_CHECK_NE(a, b) TFLITE_CHECK((a) != (b))
#define TFLITE_CHECK_LE(a, b) TFLITE_CHECK((a) <= (b))
#ifdef NDEBUG
#define TFLITE_DCHECK(is_true) ((void)sizeof(is_true))
#else
#define TFLITE_DCHECK(is_true) TFLITE_CHECK(is_true)
#endif
#define TFLITE_DCHECK_EQ(a, b) TFLITE_DCHECK((a) == (b))
#define TF_LITE_REMOVE_VIRTUAL_DELETE \
    void operator delete(void *) {}
#define TF_LITE_REPORT_ERROR(reporter, ...) static_cast< ::tflite::ErrorReporter *>(reporter)->Report(__VA_ARGS__)

void MicroPrintf(const char *format, ...);
void VMicroPrintf(const char *format, va_list arguments);
int MicroSnprintf(char *text, size_t bytes, const char *format, ...);
int MicroVsnprintf(char *text, size_t bytes, const char *format, va_list arguments);

// name of the method, name of the op, its number in .tflite files: 32 for all custom ops
#define TW_TFLM_OPS(X) \
    X(Abs, ABS, 101) X(Add, ADD, 0) X(AddN, ADD_N, 106) X(ArgMax, ARG_MAX, 56) X(ArgMin, ARG_MIN, 79) \
    X(AssignVariable, ASSIGN_VARIABLE, 144) X(AveragePool2D, AVERAGE_POOL_2D, 1) X(BatchMatMul, BATCH_MATMUL, 126) \
    X(BatchToSpaceNd, BATCH_TO_SPACE_ND, 37) X(BroadcastArgs, BROADCAST_ARGS, 145) X(BroadcastTo, BROADCAST_TO, 130) \
    X(CallOnce, CALL_ONCE, 129) X(Cast, CAST, 53) X(Ceil, CEIL, 104) X(CircularBuffer, CIRCULAR_BUFFER, 32) \
    X(Concatenation, CONCATENATION, 2) X(Conv2D, CONV_2D, 3) X(Cos, COS, 108) X(CumSum, CUMSUM, 128) \
    X(Decode, DECODE, 32) X(Delay, DELAY, 32) X(DepthToSpace, DEPTH_TO_SPACE, 5) X(DepthwiseConv2D, DEPTHWISE_CONV_2D, 4) \
    X(Dequantize, DEQUANTIZE, 6) X(DetectionPostprocess, DETECTION_POSTPROCESS, 32) X(Div, DIV, 42) \
    X(DynamicUpdateSlice, DYNAMIC_UPDATE_SLICE, 151) X(Elu, ELU, 111) X(EmbeddingLookup, EMBEDDING_LOOKUP, 7) \
    X(Energy, ENERGY, 32) X(Equal, EQUAL, 71) X(EthosU, ETHOSU, 32) X(Exp, EXP, 47) X(ExpandDims, EXPAND_DIMS, 70) \
    X(FftAutoScale, FFT_AUTO_SCALE, 32) X(Fill, FILL, 94) X(FilterBank, FILTER_BANK, 32) \
    X(FilterBankLog, FILTER_BANK_LOG, 32) X(FilterBankSpectralSubtraction, FILTER_BANK_SPECTRAL_SUBTRACTION, 32) \
    X(FilterBankSquareRoot, FILTER_BANK_SQUARE_ROOT, 32) X(Floor, FLOOR, 8) X(FloorDiv, FLOOR_DIV, 90) \
    X(FloorMod, FLOOR_MOD, 95) X(Framer, FRAMER, 32) X(FullyConnected, FULLY_CONNECTED, 9) X(Gather, GATHER, 36) \
    X(GatherNd, GATHER_ND, 107) X(Greater, GREATER, 61) X(GreaterEqual, GREATER_EQUAL, 62) X(HardSwish, HARD_SWISH, 117) \
    X(If, IF, 118) X(Irfft, IRFFT, 32) X(L2Normalization, L2_NORMALIZATION, 11) X(L2Pool2D, L2_POOL_2D, 12) \
    X(LeakyRelu, LEAKY_RELU, 98) X(Less, LESS, 58) X(LessEqual, LESS_EQUAL, 63) X(Log, LOG, 73) \
    X(LogSoftmax, LOG_SOFTMAX, 50) X(LogicalAnd, LOGICAL_AND, 86) X(LogicalNot, LOGICAL_NOT, 87) \
    X(LogicalOr, LOGICAL_OR, 84) X(Logistic, LOGISTIC, 14) X(MaxPool2D, MAX_POOL_2D, 17) X(Maximum, MAXIMUM, 55) \
    X(Mean, MEAN, 40) X(Minimum, MINIMUM, 57) X(MirrorPad, MIRROR_PAD, 100) X(Mul, MUL, 18) X(Neg, NEG, 59) \
    X(NotEqual, NOT_EQUAL, 72) X(OverlapAdd, OVERLAP_ADD, 32) X(PCAN, PCAN, 32) X(Pack, PACK, 83) X(Pad, PAD, 34) \
    X(PadV2, PADV2, 60) X(Prelu, PRELU, 54) X(Quantize, QUANTIZE, 114) X(ReadVariable, READ_VARIABLE, 143) \
    X(ReduceAll, REDUCE_ALL, 140) X(ReduceMax, REDUCE_MAX, 82) X(ReduceMin, REDUCE_MIN, 89) X(Relu, RELU, 19) \
    X(Relu6, RELU6, 21) X(Reshape, RESHAPE, 22) X(ResizeBilinear, RESIZE_BILINEAR, 23) \
    X(ResizeNearestNeighbor, RESIZE_NEAREST_NEIGHBOR, 97) X(ReverseV2, REVERSE_V2, 105) X(Rfft, RFFT, 32) \
    X(Round, ROUND, 116) X(Rsqrt, RSQRT, 76) X(SelectV2, SELECT_V2, 123) X(Shape, SHAPE, 77) X(Sin, SIN, 66) \
    X(Slice, SLICE, 65) X(Softmax, SOFTMAX, 25) X(SpaceToBatchNd, SPACE_TO_BATCH_ND, 38) \
    X(SpaceToDepth, SPACE_TO_DEPTH, 26) X(Split, SPLIT, 49) X(SplitV, SPLIT_V, 102) X(Sqrt, SQRT, 75) \
    X(Square, SQUARE, 92) X(SquaredDifference, SQUARED_DIFFERENCE, 99) X(Squeeze, SQUEEZE, 43) X(Stacker, STACKER, 32) \
    X(StridedSlice, STRIDED_SLICE, 45) X(Sub, SUB, 41) X(Sum, SUM, 74) X(Svdf, SVDF, 27) X(Tanh, TANH, 28) \
    X(Transpose, TRANSPOSE, 39) X(TransposeConv, TRANSPOSE_CONV, 67) \
    X(UnidirectionalSequenceLSTM, UNIDIRECTIONAL_SEQUENCE_LSTM, 44) X(Unpack, UNPACK, 88) X(VarHandle, VAR_HANDLE, 142) \
    X(While, WHILE, 119) X(Window, WINDOW, 32) X(ZerosLike, ZEROS_LIKE, 93)

struct tw_tflm_network; // of networks.h

namespace tflite {

// The bytes of a .tflite file, or of an array that an export wrote anew.
class Model {
  public:
    Model() = delete;
    uint32_t version() const { return TFLITE_SCHEMA_VERSION; }
};

inline const Model *GetModel(const void *file) { return static_cast<const Model *>(file); }

struct TFLMRegistration {}; // of a kernel, which the C has already
using TfLiteRegistration = TFLMRegistration;

enum BuiltinOperator {
#define TW_TFLM_OP(method, op, number) BuiltinOperator_##op = number,
    TW_TFLM_OPS(TW_TFLM_OP)
#undef TW_TFLM_OP
};
#define TW_TFLM_OP(method, op, number)                                            \
    inline TFLMRegistration Register_##op() { return TFLMRegistration(); }        \
    inline TFLMRegistration Register_##op##_INT8() { return TFLMRegistration(); } \
    inline TFLMRegistration Register_##op##_INT16() { return TFLMRegistration(); }
TW_TFLM_OPS(TW_TFLM_OP)
#undef TW_TFLM_OP
namespace tflm_signal {
using namespace ::tflite;
}
namespace ops {
namespace micro {
using namespace ::tflite;
}
}

inline const char *GetString_ETHOSU() { return "ethos-u"; }
void InitializeTarget();
uint32_t ticks_per_second();    // 0 if there is no timer; define both to measure time
uint32_t GetCurrentTimeTicks(); // increases, and may wrap around

class ErrorReporter {
  public:
    virtual ~ErrorReporter() {}
    virtual int Report(const char *format, va_list arguments);
    int Report(const char *format, ...);
    TF_LITE_REMOVE_VIRTUAL_DELETE
};
class MicroErrorReporter : public ErrorReporter {};

class MicroOpResolver {};
class AllOpsResolver : public MicroOpResolver {
  public:
    explicit AllOpsResolver(ErrorReporter * = nullptr) {}
};

// Counts ops. As in TFLite Micro, a resolver for `tOpCount` ops refuses more.
template <unsigned int tOpCount>
class MicroMutableOpResolver : public MicroOpResolver {
  public:
    explicit MicroMutableOpResolver(ErrorReporter * = nullptr) {}

#define TW_TFLM_OP(method, op, number) \
    TfLiteStatus Add##method(const TFLMRegistration & = TFLMRegistration()) { return Count(#op); }
    TW_TFLM_OPS(TW_TFLM_OP)
#undef TW_TFLM_OP
    template <class T> TfLiteStatus AddCustom(const char *name, const T &) { return Count(name); }
    template <class... T> TfLiteStatus AddBuiltin(BuiltinOperator, const T &...) { return Count("AddBuiltin"); }
    unsigned int GetRegistrationLength() { return count_; }

  private:
    TfLiteStatus Count(const char *op)
    {
        if (count_ >= tOpCount) {
            MicroPrintf("tinyweave: %s is op %u of a resolver for %u; raise its number", op, count_ + 1, tOpCount);
            return kTfLiteError;
        }
        ++count_;
        return kTfLiteOk;
    }
    unsigned int count_ = 0;
};

class MicroProfilerInterface {
  public:
    virtual ~MicroProfilerInterface() {}
    virtual uint32_t BeginEvent(const char *tag) = 0;
    virtual void EndEvent(uint32_t event) = 0;
    TF_LITE_REMOVE_VIRTUAL_DELETE
};

// Sums the ticks of all calls of Invoke; the C of a network has a profile of its layers, see the README of the export.
class MicroProfiler : public MicroProfilerInterface {
  public:
    uint32_t BeginEvent(const char *tag) override;
    void EndEvent(uint32_t event) override;
    void ClearEvents() { events_ = ticks_ = 0; }
    uint32_t GetTotalTicks() const { return ticks_; }
    void Log() const;
    void LogCsv() const { Log(); }
    void LogTicksPerTagCsv() { Log(); }
    TF_LITE_REMOVE_VIRTUAL_DELETE

  private:
    const char *tag_ = "";
    uint32_t begin_ = 0, events_ = 0, ticks_ = 0;
};

// An arena of one or several interpreters: activations at its start, which all use in turn; tensors and the memory of networks
// that keep state at its end, each with a place of its own.
class MicroAllocator {
  public:
    MicroAllocator(uint8_t *arena, size_t bytes);
    static MicroAllocator *Create(uint8_t *arena, size_t bytes); // at the arena's end; nullptr if it is too small
    size_t used_bytes() const { return activations_ + static_cast<size_t>(end_ - kept_); }
    void PrintAllocations() const;

  private:
    friend class MicroInterpreter;
    bool Take(size_t activations, size_t kept);
    uint8_t *begin_, *kept_, *end_; // aligned
    size_t activations_ = 0;        // most bytes of one interpreter
};
using SimpleTensorAllocator = MicroAllocator;
using RecordingMicroAllocator = MicroAllocator;

// Networks keep their variables themselves.
class MicroResourceVariables {
  public:
    MicroResourceVariables() = delete;
    static MicroResourceVariables *Create(MicroAllocator *at, int) { return reinterpret_cast<MicroResourceVariables *>(at); }
};

template <class T> T *GetTensorData(TfLiteTensor *tensor)
{
    return tensor == nullptr ? nullptr : reinterpret_cast<T *>(tensor->data.raw);
}
template <class T> const T *GetTensorData(const TfLiteTensor *tensor)
{
    return tensor == nullptr ? nullptr : reinterpret_cast<const T *>(tensor->data.raw);
}
int ElementCount(const TfLiteIntArray &dims);

class MicroInterpreter {
  public:
    // `more`, in any order: ErrorReporter *, MicroResourceVariables *, MicroProfilerInterface *, nullptr, and a bool,
    // preserve_all_tensors: these are the forms of all versions of TFLite Micro
    template <class... More>
    MicroInterpreter(const Model *model, const MicroOpResolver &, uint8_t *arena, size_t bytes, More... more)
        : model_(model), network_(Find(model)), own_(arena, bytes), allocator_(&own_)
    {
        const int taken[] = {0, (Take(more), 0)...};
        (void)taken;
    }
    template <class... More>
    MicroInterpreter(const Model *model, const MicroOpResolver &, MicroAllocator *allocator, More... more)
        : model_(model), network_(Find(model)), own_(nullptr, 0), allocator_(allocator)
    {
        const int taken[] = {0, (Take(more), 0)...};
        (void)taken;
    }
    MicroInterpreter(const MicroInterpreter &) = delete;
    MicroInterpreter &operator=(const MicroInterpreter &) = delete;

    TfLiteStatus AllocateTensors();
    TfLiteStatus Invoke();
    TfLiteStatus Reset(); // all state of the network to its initial value
    TfLiteStatus initialization_status() const { return status_; }

    size_t inputs_size() const;
    size_t outputs_size() const;
    TfLiteTensor *input(size_t index) const { return Tensor(index, inputs_size(), 0, "input"); }
    TfLiteTensor *output(size_t index) const { return Tensor(index, outputs_size(), inputs_size(), "output"); }
    TfLiteTensor *input_tensor(size_t index) const { return input(index); }
    TfLiteTensor *output_tensor(size_t index) const { return output(index); }
    template <class T> T *typed_input_tensor(int index) const { return GetTensorData<T>(input(static_cast<size_t>(index))); }
    template <class T> T *typed_output_tensor(int index) const { return GetTensorData<T>(output(static_cast<size_t>(index))); }
    struct Indices {
        size_t count;
        size_t size() const { return count; }
    };
    Indices inputs() const { return {inputs_size()}; }
    Indices outputs() const { return {outputs_size()}; }

    size_t arena_used_bytes() const { return allocator_ == nullptr ? 0 : allocator_->used_bytes(); }
    const MicroAllocator &GetMicroAllocator() const { return *allocator_; }

  private:
    static const tw_tflm_network *Find(const Model *model); // nullptr if the library does not have it
    bool Place();
    TfLiteTensor *Tensor(size_t index, size_t count, size_t before, const char *what) const;
    void Take(decltype(nullptr)) {}
    void Take(ErrorReporter *) {}
    void Take(MicroResourceVariables *) {}
    void Take(MicroProfilerInterface *profiler) { profiler_ = profiler; }
    template <class Integer>
    auto Take(Integer preserve_all_tensors) -> decltype(preserve_all_tensors % 1, void())
    {
        preserves_ = preserve_all_tensors != 0;
    }

    const Model *model_;
    const tw_tflm_network *network_;
    MicroAllocator own_, *allocator_;
    MicroProfilerInterface *profiler_ = nullptr;
    TfLiteTensor *tensors_ = nullptr; // inputs, then outputs
    uint8_t *arena_ = nullptr;        // of the network
    TfLiteStatus status_ = kTfLiteError;
    bool preserves_ = false;
};
using RecordingMicroInterpreter = MicroInterpreter;

}

#endif
