/* startup.c - vectors, reset, and semihosting: what a bare Cortex-M needs to run main, to read and to print. */
#include <stdint.h>

#define WORD(address) (*(volatile uint32_t *)(address))
#define CPACR WORD(0xE000ED88u)
#define SYST_CSR WORD(0xE000E010u)
#define SYST_RVR WORD(0xE000E014u)
#define SYST_CVR WORD(0xE000E018u)

enum { SYS_OPEN = 0x01, SYS_WRITE0 = 0x04, SYS_READ = 0x06, SYS_SEEK = 0x0A, SYS_GET_CMDLINE = 0x15 };
enum { SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026, READ_BINARY = 1, LONGEST_LINE = 256 };
#define UNTOUCHED 0x5AA5A55A /* what the stack is filled with */
#define TEXT_OF(macro) AS_TEXT(macro)
#define AS_TEXT(words) #words

extern uint32_t stack_begin[], stack_top[], data_begin[], data_end[], data_image[], bss_begin[], bss_end[];

int main(void);
void print(const char *text);
void reset(void);
uint32_t firmware_cycles(void);
uint32_t firmware_stack(void);
int32_t firmware_read(void *destination, int32_t count);
int32_t firmware_rewind(void);
static void fault(void);
static void overflow(void);

static volatile uint32_t rounds; /* of SysTick */

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,     (uintptr_t)fault, 0,                0,                0,                (uintptr_t)fault,
    (uintptr_t)fault,     0,                (uintptr_t)fault, (uintptr_t)overflow};

static uint32_t call_host(uint32_t what, const void *argument)
{
    register uint32_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void print(const char *text) { call_host(SYS_WRITE0, text); }

__attribute__((noreturn)) static void leave(uint32_t code)
{
    const uint32_t block[2] = {APPLICATION_EXIT, code};
    for (;;) {
        call_host(SYS_EXIT_EXTENDED, block);
    }
}

/* Open the file that the host's command line names behind its first word; return its number, -1 if there is none. */
static int32_t opened(void)
{
    char line[LONGEST_LINE];
    const uintptr_t asked[2] = {(uintptr_t)line, sizeof line};
    if (call_host(SYS_GET_CMDLINE, asked) != 0) {
        return -1;
    }
    uintptr_t first = 0, end = 0;
    for (; end < LONGEST_LINE && line[end] != '\0'; ++end) {
        first = first == 0 && line[end] == ' ' ? end + 1 : first;
    }
    if (first == 0) {
        return -1;
    }
    const uintptr_t block[3] = {(uintptr_t)(line + first), READ_BINARY, end - first};
    return (int32_t)call_host(SYS_OPEN, block);
}

static int32_t file; /* one more than its number */

/* Bring up to `count` bytes of the host's file; return how many, 0 at its end, -1 for an error. */
int32_t firmware_read(void *destination, int32_t count)
{
    if (file <= 0) {
        file = opened() + 1;
    }
    if (file <= 0 || count < 0) {
        return -1;
    }
    const uintptr_t block[3] = {(uintptr_t)(file - 1), (uintptr_t)destination, (uintptr_t)count};
    const uint32_t missing = call_host(SYS_READ, block);
    return missing > (uint32_t)count ? -1 : count - (int32_t)missing;
}

/* Begin the host's file anew; return 0. */
int32_t firmware_rewind(void)
{
    const uintptr_t block[2] = {(uintptr_t)(file - 1), 0};
    return (int32_t)call_host(SYS_SEEK, block);
}

/* The bytes of the stack that were written since reset. */
uint32_t firmware_stack(void)
{
    const volatile uint32_t *at = stack_begin;
    while (at < stack_top && *at == UNTOUCHED) {
        ++at;
    }
    return (uint32_t)((uintptr_t)stack_top - (uintptr_t)at);
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

/* The floating-point and vector registers are switched on before any code that may use them, and the stack is filled. */
__attribute__((naked)) void reset(void)
{
    __asm__ volatile("ldr r0, =0xE000ED88\n"
                     "ldr r1, [r0]\n"
                     "orr r1, r1, #0x00F00000\n"
                     "str r1, [r0]\n"
                     "dsb\n"
                     "isb\n"
                     "ldr r0, =stack_begin\n"
                     "ldr r1, =stack_top\n"
                     "ldr r2, =" TEXT_OF(UNTOUCHED) "\n"
                     "0: str r2, [r0], #4\n"
                     "cmp r0, r1\n"
                     "blo 0b\n"
                     "b start\n");
}
