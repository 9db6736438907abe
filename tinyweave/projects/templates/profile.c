/* @{name}_profile.c - counts the core's cycles by layer, see @{name}_profile.h. */
#include "@{name}_profile.h"

#ifdef TW_TRACE

#define STEPS @{steps} /* of the model with the most */
#define LAYERS @{layers}

#ifdef __cplusplus
#define FUNCTION_OF_C extern "C"
#else
#define FUNCTION_OF_C extern
#endif

/* SDK_CYCLES(): the counter of the SDK or your own, for cores without one and cores whose own stands still, as in QEMU. */
#if defined(TW_CYCLES)
FUNCTION_OF_C uint32_t TW_CYCLES(void);
#define SDK_CYCLES() TW_CYCLES()

#elif defined(ESP_PLATFORM)
#include "esp_cpu.h"
#define SDK_CYCLES() ((uint32_t)esp_cpu_get_cycle_count())

#elif defined(__ZEPHYR__)
#include <zephyr/kernel.h>
#define SDK_CYCLES() k_cycle_get_32()

#elif defined(MODULE_ZTIMER_USEC) /* RIOT */
#include "clk.h"
#include "ztimer.h"
#define SDK_CYCLES() ((uint32_t)ztimer_now(ZTIMER_USEC) * (coreclk() / 1000000u))

#elif defined(ARDUINO) && defined(F_CPU) && F_CPU + 0 >= 1000000
FUNCTION_OF_C unsigned long micros(void);
#define SDK_CYCLES() ((uint32_t)micros() * (uint32_t)(F_CPU / 1000000))

#elif defined(USE_HAL_DRIVER) /* of STM32Cube, with SysTick as its time base */
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)
FUNCTION_OF_C uint32_t HAL_GetTick(void);
#define SDK_CYCLES() hal_cycles()
static uint32_t hal_cycles(void)
{
    uint32_t before, left;
    do {
        before = HAL_GetTick();
        left = SYST_CVR;
    } while (before != HAL_GetTick());
    return before * (SYST_RVR + 1) - left;
}
#endif

/* core_cycles(): the counter of the core. */
#if defined(TW_CYCLES) || defined(ESP_PLATFORM)
#elif defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define CORE_COUNTS
#define DEMCR (*(volatile uint32_t *)0xE000EDFCu)
#define DWT_CTRL (*(volatile uint32_t *)0xE0001000u)
#define DWT_CYCCNT (*(volatile uint32_t *)0xE0001004u)
#define DWT_LAR (*(volatile uint32_t *)0xE0001FB0u) /* of a Cortex-M7: without its key the counter does not start */
static void start_core(void)
{
    DEMCR |= 1u << 24;
    DWT_LAR = 0xC5ACCE55u;
    DWT_CTRL |= 1u;
}
static uint32_t core_cycles(void) { return DWT_CYCCNT; }

#elif defined(__riscv)
#define CORE_COUNTS
static void start_core(void) {}
static uint32_t core_cycles(void)
{
    uint32_t count;
    __asm__ volatile("csrr %0, mcycle" : "=r"(count));
    return count;
}

#elif (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define CORE_COUNTS
static void start_core(void) {}
static uint32_t core_cycles(void) { return (uint32_t)__builtin_ia32_rdtsc(); } /* ticks of this computer: not cycles */

#elif !defined(SDK_CYCLES) && (defined(__unix__) || defined(__APPLE__) || defined(_WIN32))
#include <time.h>
#define SDK_CYCLES() ((uint32_t)clock()) /* of this computer: not cycles */
#endif

#if defined(CORE_COUNTS) && defined(SDK_CYCLES)
static int core_stands; /* whether the counter of the core does not count */
static uint32_t cycles(void) { return core_stands ? SDK_CYCLES() : core_cycles(); }
static void start_counter(void)
{
    start_core();
    const uint32_t first = core_cycles();
    for (volatile int turn = 0; turn < 100; turn = turn + 1) {
    }
    core_stands = core_cycles() == first;
}
#elif defined(CORE_COUNTS)
static uint32_t cycles(void) { return core_cycles(); }
static void start_counter(void) { start_core(); }
#elif defined(SDK_CYCLES)
static uint32_t cycles(void) { return SDK_CYCLES(); }
static void start_counter(void) {}
#else
#error "this core has no cycle counter: say which function counts, -DTW_CYCLES=function"
#endif

static uint32_t in_steps[STEPS], in_layers[LAYERS], before;
static int32_t last = -1; /* layer of the stage that runs */

void @{name}_profile_begin(void)
{
    for (int32_t step = 0; step < STEPS; ++step) {
        in_steps[step] = 0;
    }
    for (int32_t layer = 0; layer < LAYERS; ++layer) {
        in_layers[layer] = 0;
    }
    start_counter();
    before = cycles();
}

void @{name}_profile_step(int32_t step, int32_t layer)
{
    const uint32_t taken = cycles() - before;
    const int32_t ran = layer < 0 ? last : layer; /* the end of a stage's loop belongs to its last layer */
    if (ran < 0) {
        in_steps[step] += taken;
    } else {
        in_layers[ran] += taken;
    }
    last = layer;
    before = cycles(); /* what this function takes is not counted */
}

static void print_count(void (*print)(const char *text), uint32_t value)
{
    char text[11], *at = text + sizeof text - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    print(at);
}

void @{name}_profile_print(void (*print)(const char *text), const char *model, const @{name}_profile_row *rows, int32_t count)
{
    const uint32_t steps = count > 0 ? (uint32_t)rows[count - 1].step + 1 : 0;
    for (int32_t row = 0; row < count; ++row) {
        print("tw-profile ");
        print(model);
        print(" ");
        print_count(print, (uint32_t)rows[row].step + 1);
        print("/");
        print_count(print, steps);
        print(" ");
        print(rows[row].name);
        print(" ");
        print_count(print, rows[row].layer < 0 ? in_steps[rows[row].step] : in_layers[rows[row].layer]);
        print("\n");
    }
}

#else
typedef int @{name}_profile_is_off; /* a file of C must not be empty */
#endif
