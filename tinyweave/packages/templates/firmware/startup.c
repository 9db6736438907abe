/* startup.c - vectors, reset, and semihosting: what a bare Cortex-M needs to run main and to print. */
#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(address))
#define CPACR WORD(0xE000ED88u)
#define SYST_CSR WORD(0xE000E010u)
#define SYST_RVR WORD(0xE000E014u)
#define SYST_CVR WORD(0xE000E018u)

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

extern uint32_t stack_top[], data_begin[], data_end[], data_image[], bss_begin[], bss_end[];

int main(void);
void print(const char *text);
void reset(void);
uint32_t firmware_cycles(void);
static void fault(void);
static void overflow(void);

static volatile uint32_t rounds; /* of SysTick */

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,     (uintptr_t)fault, 0,                0,                0,                (uintptr_t)fault,
    (uintptr_t)fault,     0,                (uintptr_t)fault, (uintptr_t)overflow};

static void call_host(uint32_t what, const void *argument)
{
    register uint32_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void print(const char *text) { call_host(SYS_WRITE0, text); }

__attribute__((noreturn)) static void leave(uint32_t code)
{
    const uint32_t block[2] = {APPLICATION_EXIT, code};
    for (;;) {
        call_host(SYS_EXIT_EXTENDED, block);
    }
}

static void fault(void)
{
    print("the core faulted\n");
    leave(70);
}

static void overflow(void) { rounds = rounds + 1; }

/* The time of the core's clock since reset: SysTick has 24 bits, and counts down. */
uint32_t firmware_cycles(void)
{
    uint32_t before, ticks;
    do {
        before = rounds;
        ticks = SYST_CVR;
    } while (before != rounds);
    return (before << 24) + (0xFFFFFFu - ticks);
}

__attribute__((noreturn, used)) static void start(void)
{
    const uint32_t *from = data_image;
    for (uint32_t *to = data_begin; to < data_end; ++to) {
        *to = *from++;
    }
    for (uint32_t *to = bss_begin; to < bss_end; ++to) {
        *to = 0;
    }
    SYST_RVR = 0xFFFFFFu;
    SYST_CVR = 0;
    SYST_CSR = 7;
    leave((uint32_t)main());
}

/* The floating-point and vector registers are switched on before any code that may use them. */
__attribute__((naked)) void reset(void)
{
    __asm__ volatile("ldr r0, =0xE000ED88\n"
                     "ldr r1, [r0]\n"
                     "orr r1, r1, #0x00F00000\n"
                     "str r1, [r0]\n"
                     "dsb\n"
                     "isb\n"
                     "b start\n");
}
