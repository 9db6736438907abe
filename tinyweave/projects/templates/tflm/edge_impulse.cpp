// @{array}_compiled.cpp - runs @{model} in place of the network that Edge Impulse compiled to a file of this name.
@{interface}
#include "@{model}.h"

@{network}
static void *arena = nullptr; // from init to reset

TfLiteStatus @{array}_init(void *(*allocate)(size_t align, size_t bytes))
{
    arena = allocate(@{NAME}_ALIGN, network_@{model}.arena_bytes);
    return arena != nullptr && network_@{model}.init(arena) == 0 ? kTfLiteOk : kTfLiteError;
}

TfLiteStatus @{array}_invoke() { return arena != nullptr && network_@{model}.invoke(arena) == 0 ? kTfLiteOk : kTfLiteError; }

TfLiteStatus @{array}_reset(void (*release)(void *))
{
    if (arena != nullptr) {
        release(arena);
    }
    arena = nullptr;
    return kTfLiteOk;
}

static TfLiteStatus Tensor(int index, int count, int before, TfLiteTensor *tensor)
{
    if (arena == nullptr || index < 0 || index >= count) {
        return kTfLiteError;
    }
    *tensor = tw_tflm_tensor_of(network_@{model}, arena, before + index);
    return kTfLiteOk;
}

TfLiteStatus @{array}_input(int index, TfLiteTensor *tensor) { return Tensor(index, network_@{model}.inputs, 0, tensor); }

TfLiteStatus @{array}_output(int index, TfLiteTensor *tensor)
{
    return Tensor(index, network_@{model}.outputs, network_@{model}.inputs, tensor);
}
