/* common.h - types of TFLite Micro's interface, declared by tinyweave for C99 and C++: tensors, their shapes and numbers. */
#ifndef TINYWEAVE_TFLM_COMMON_H
#define TINYWEAVE_TFLM_COMMON_H

#ifdef TENSORFLOW_LITE_CORE_C_COMMON_H_
#error "TFLite Micro's own headers are in the include path, too: remove the old library from the project"
#endif

#ifdef __GNUC__
#pragma GCC system_header /* the warnings of the firmware's own flags do not apply here, such as for arrays without a length */
#endif
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 } TfLiteStatus;

typedef enum TfLiteType {
    kTfLiteNoType = 0, kTfLiteFloat32 = 1, kTfLiteInt32 = 2, kTfLiteUInt8 = 3, kTfLiteInt64 = 4, kTfLiteString = 5,
    kTfLiteBool = 6, kTfLiteInt16 = 7, kTfLiteComplex64 = 8, kTfLiteInt8 = 9, kTfLiteFloat16 = 10, kTfLiteFloat64 = 11,
    kTfLiteComplex128 = 12, kTfLiteUInt64 = 13, kTfLiteResource = 14, kTfLiteVariant = 15, kTfLiteUInt32 = 16,
    kTfLiteUInt16 = 17, kTfLiteInt4 = 18
} TfLiteType;

typedef struct TfLiteIntArray {
    int size;
    int data[];
} TfLiteIntArray;

typedef struct TfLiteFloatArray {
    int size;
    float data[];
} TfLiteFloatArray;

/* real = scale * (q - zero_point); a tensor that is not quantised has the scale 0 */
typedef struct TfLiteQuantizationParams {
    float scale;
    int32_t zero_point;
} TfLiteQuantizationParams;

typedef enum TfLiteQuantizationType { kTfLiteNoQuantization = 0, kTfLiteAffineQuantization = 1 } TfLiteQuantizationType;

typedef struct TfLiteAffineQuantization {
    TfLiteFloatArray *scale;
    TfLiteIntArray *zero_point;
    int32_t quantized_dimension;
} TfLiteAffineQuantization;

typedef struct TfLiteQuantization {
    TfLiteQuantizationType type;
    void *params; /* a TfLiteAffineQuantization, or NULL */
} TfLiteQuantization;

typedef union TfLitePtrUnion {
    void *data;
    char *raw;
    const char *raw_const;
    int8_t *int8;
    uint8_t *uint8;
    int16_t *i16;
    uint16_t *ui16;
    int32_t *i32;
    uint32_t *u32;
    int64_t *i64;
    uint64_t *u64;
    float *f;
    double *f64;
    bool *b;
} TfLitePtrUnion;

typedef struct TfLiteTensor {
    TfLiteType type;
    TfLitePtrUnion data;
    TfLiteIntArray *dims; /* in Flash */
    TfLiteQuantizationParams params;
    size_t bytes;
    bool is_variable;
    TfLiteQuantization quantization;
} TfLiteTensor;

const char *TfLiteTypeGetName(TfLiteType type);

/* Print text, formatted as by printf. Define this function to print elsewhere. */
void DebugLog(const char *format, va_list arguments);

/* Print by a function instead. */
void RegisterDebugLogCallback(void (*print)(const char *text));

#ifdef __cplusplus
}
#endif

#define TF_LITE_ENSURE_STATUS(call)               \
    do {                                          \
        const TfLiteStatus tw_tflm_status = (call); \
        if (tw_tflm_status != kTfLiteOk) {        \
            return tw_tflm_status;                \
        }                                         \
    } while (0)

#endif
