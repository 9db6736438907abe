// The forms that constructors and resolvers had since 2019, and the older headers. The program prints how many interpreters run.
#include <TensorFlowLite.h>

#include <memory>
#include <new>

#include "tensorflow/lite/experimental/micro/kernels/all_ops_resolver.h"
#include "tensorflow/lite/experimental/micro/micro_error_reporter.h"
#include "tensorflow/lite/experimental/micro/simple_tensor_allocator.h"
#include "tensorflow/lite/micro/all_ops_resolver.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_profiler.h"
#include "tensorflow/lite/micro/recording_micro_interpreter.h"
#include "tensorflow/lite/micro/system_setup.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "tensorflow/lite/version.h"

extern const unsigned char g_chain[];
extern const int g_chain_len;

namespace tflite {
uint32_t ticks_per_second() { return 1000; }
uint32_t GetCurrentTimeTicks()
{
    static uint32_t ticks = 0;
    return ticks += 7;
}
}

class OwnReporter : public tflite::ErrorReporter {
  public:
    ~OwnReporter() override {}
    int Report(const char *format, va_list) override { return format[0]; }

  private:
    TF_LITE_REMOVE_VIRTUAL_DELETE
};

class OwnResolver : public tflite::MicroMutableOpResolver<3> {
  public:
    OwnResolver() { AddSoftmax(); }
};

using Resolver = tflite::MicroMutableOpResolver<8>;
static int ran = 0;

static TfLiteStatus Run(tflite::MicroInterpreter &interpreter)
{
    TF_LITE_ENSURE_STATUS(interpreter.Invoke()); // which allocates
    ran += interpreter.initialization_status() == kTfLiteOk && interpreter.input_tensor(0) == interpreter.input(0)
           && interpreter.typed_output_tensor<int8_t>(0) == tflite::GetTensorData<int8_t>(interpreter.output(0))
           && interpreter.inputs().size() == 1 && tflite::ElementCount(*interpreter.input(0)->dims) == 64;
    return kTfLiteOk;
}

static int Failures()
{
    alignas(16) static uint8_t arena[512], other[1024];
    const size_t size = sizeof arena;
    const tflite::Model *model = ::tflite::GetModel(g_chain);
    tflite::MicroErrorReporter micro_reporter;
    tflite::ErrorReporter *reporter = &micro_reporter;
    OwnReporter own_reporter;
    tflite::MicroProfiler profiler;
    tflite::AllOpsResolver all;
    tflite::ops::micro::AllOpsResolver all_2019;
    Resolver resolver(reporter);
    OwnResolver own;
    int bad = resolver.AddBuiltin(tflite::BuiltinOperator_CONV_2D, tflite::ops::micro::Register_CONV_2D(), 1, 3) != kTfLiteOk;
    bad += resolver.AddCustom(tflite::GetString_ETHOSU(), tflite::Register_ETHOSU()) != kTfLiteOk;
    bad += resolver.AddEthosU() != kTfLiteOk;
    bad += resolver.AddFullyConnected(tflite::Register_FULLY_CONNECTED_INT8()) != kTfLiteOk;
    bad += resolver.AddFilterBankSpectralSubtraction() != kTfLiteOk;
    const tflite::MicroOpResolver &any = resolver;

    tflite::MicroAllocator *allocator = tflite::MicroAllocator::Create(other, sizeof other);
    auto *variables = tflite::MicroResourceVariables::Create(allocator, 20);
    bad += allocator == nullptr || variables == nullptr;

    tflite::MicroInterpreter newest(model, resolver, arena, size);
    bad += Run(newest) != kTfLiteOk;
    tflite::MicroInterpreter with_variables(model, resolver, arena, size, variables);
    bad += Run(with_variables) != kTfLiteOk;
    tflite::MicroInterpreter with_nulls(model, any, arena, size, nullptr, nullptr);
    bad += Run(with_nulls) != kTfLiteOk;
    tflite::MicroInterpreter with_profiler(model, any, arena, size, nullptr, &profiler);
    bad += Run(with_profiler) != kTfLiteOk || profiler.GetTotalTicks() != 7;
    tflite::MicroInterpreter preserving(model, any, arena, size, nullptr, nullptr, false);
    bad += Run(preserving) != kTfLiteOk;
    tflite::MicroInterpreter of_2020(model, all, arena, size, reporter);
    bad += Run(of_2020) != kTfLiteOk;
    tflite::MicroInterpreter own_report(model, own, arena, size, &own_reporter, &profiler);
    bad += Run(own_report) != kTfLiteOk || profiler.GetTotalTicks() != 14;
    tflite::MicroInterpreter of_2021(model, all, arena, size, &micro_reporter, nullptr, nullptr);
    bad += Run(of_2021) != kTfLiteOk;
    tflite::MicroInterpreter with_null(model, resolver, arena, size, NULL);
    bad += Run(with_null) != kTfLiteOk;
    tflite::MicroInterpreter with_allocator(model, resolver, allocator);
    bad += Run(with_allocator) != kTfLiteOk;
    tflite::MicroInterpreter with_all(model, resolver, allocator, variables, &profiler);
    bad += Run(with_all) != kTfLiteOk;
    tflite::SimpleTensorAllocator simple(arena, size);
    tflite::MicroInterpreter of_2019(model, all_2019, &simple, reporter);
    bad += Run(of_2019) != kTfLiteOk;
    tflite::RecordingMicroInterpreter recording(model, all, tflite::RecordingMicroAllocator::Create(arena, size), variables);
    bad += Run(recording) != kTfLiteOk;
    recording.GetMicroAllocator().PrintAllocations();
    std::unique_ptr<tflite::MicroInterpreter> owned(new tflite::MicroInterpreter{model, resolver, arena, size});
    bad += Run(*owned) != kTfLiteOk;
    alignas(tflite::MicroInterpreter) uint8_t place[sizeof(tflite::MicroInterpreter)];
    auto *placed = new (place) tflite::MicroInterpreter(model, resolver, arena, size);
    bad += Run(*placed) != kTfLiteOk;
    placed->~MicroInterpreter();

    profiler.LogTicksPerTagCsv();
    TF_LITE_REPORT_ERROR(reporter, "reported %d of %s", g_chain_len, TfLiteTypeGetName(kTfLiteInt4));
    reporter->Report("version %d", static_cast<int>(model->version()));
    char text[16];
    bad += MicroSnprintf(text, sizeof text, "%d", 12) != 2;
    TFLITE_CHECK_EQ(text[0], '1');
    TFLITE_DCHECK_EQ(text[1], '2');
    return bad;
}

int main()
{
    const int failures = Failures();
    MicroPrintf("%d interpreters ran, %d failures", ran, failures);
    return failures;
}
