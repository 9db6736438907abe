/* trace.c - watches which bytes of an arena a program reads and writes, and in which order.
 *
 * Two watchers feed it: kernels that were compiled for ThreadSanitizer on this machine, whose run-time functions are defined
 * here, and an emulator's hook for accesses. Nothing is logged: what is wanted is kept up to date with each access.
 */
#include <stdint.h>
#include <stddef.h>

typedef struct {
    int32_t op;        /* whose operand, output or scratch it is */
    int32_t role;
    int32_t begin;     /* in the arena */
    int32_t distance;  /* of an input: how far the output must begin below it */
    int32_t first, end; /* the bytes of it that were touched */
} tw_part;

enum { INPUT, OUTPUT, SCRATCH, STATE };

typedef struct {
    uint64_t arena;
    int32_t bytes;
    const int32_t *owner;  /* per byte of the arena the number of its part, -1 for none */
    tw_part *parts;
    int32_t *written;      /* per op: the highest byte of its output written so far, plus one */
    int32_t strays;        /* accesses to no part, or writes to an input */
    int32_t stray;         /* where the first one went: its offset in the arena */
    int32_t outside;       /* writes to what is neither arena nor stack */
    uint64_t stack_low, stack_high;
    /* of the emulator, to end conditions that it forgets to end where a load among them is looked at */
    int (*read_register)(void *engine, int which, void *value);
    int (*write_register)(void *engine, int which, const void *value);
    int status_register;
} tw_trace;

static tw_trace *current;

static void touch(tw_trace *t, uint64_t address, uint64_t bytes, int is_write)
{
    const uint64_t at = address - t->arena;
    if (bytes == 0) {
        return;
    }
    if (at >= (uint64_t)t->bytes || at + bytes > (uint64_t)t->bytes) {
        if (is_write && !(address >= t->stack_low && address < t->stack_high)) {
            t->outside++;
        }
        return;
    }
    const int32_t first = (int32_t)at, end = (int32_t)(at + bytes), owner = t->owner[first];
    if (owner < 0 || t->owner[end - 1] != owner || (is_write && t->parts[owner].role == INPUT)) {
        t->stray = t->strays++ ? t->stray : first;
        return;
    }
    tw_part *part = &t->parts[owner];
    const int32_t low = first - part->begin, high = end - part->begin;
    part->first = low < part->first ? low : part->first;
    part->end = high > part->end ? high : part->end;
    if (part->role == OUTPUT && is_write && high > t->written[part->op]) {
        t->written[part->op] = high;
    }
    if (part->role == INPUT && t->written[part->op] - low > part->distance) {
        part->distance = t->written[part->op] - low;
    }
}

/* Calls a model's invoke; what its kernels access is watched. */
int32_t tw_trace_invoke(tw_trace *t, int32_t (*invoke)(void *const *, const void *), void *const *memory)
{
    t->stack_high = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    t->stack_low = t->stack_high - (1 << 20);
    current = t;
    const int32_t status = invoke(memory, NULL);
    current = NULL;
    return status;
}

/* The hook for accesses of an emulated core; type 16 is a read, see UC_MEM_READ. */
void tw_trace_hook(void *engine, int type, uint64_t address, int bytes, int64_t value, tw_trace *t)
{
    const uint32_t conditions = 0x0600FC00;
    (void)value;
    touch(t, address, (uint64_t)bytes, type != 16);
    if (t->status_register) {
        uint32_t status = 0;
        t->read_register(engine, t->status_register, &status);
        if (status & conditions) {
            status &= ~conditions;
            t->write_register(engine, t->status_register, &status);
        }
    }
}

static void watch(const void *address, size_t bytes, int is_write)
{
    if (current) {
        touch(current, (uint64_t)(uintptr_t)address, bytes, is_write);
    }
}

void __tsan_init(void) {}
void __tsan_func_entry(void *from) { (void)from; }
void __tsan_func_exit(void) {}
#define ACCESSES(n)                                                      \
    void __tsan_read##n(void *at) { watch(at, n, 0); }                   \
    void __tsan_write##n(void *at) { watch(at, n, 1); }                  \
    void __tsan_unaligned_read##n(void *at) { watch(at, n, 0); }         \
    void __tsan_unaligned_write##n(void *at) { watch(at, n, 1); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void *at, size_t bytes) { watch(at, bytes, 0); }
void __tsan_write_range(void *at, size_t bytes) { watch(at, bytes, 1); }

/* memcpy, memmove and memset have these names in what is watched: all is read before anything is written */
void *tw_traced_memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *const target = (uint8_t *)to;
    const uint8_t *const source = (const uint8_t *)from;
    watch(from, bytes, 0);
    watch(to, bytes, 1);
    for (size_t i = 0; i < bytes; ++i) {
        const size_t k = target < source ? i : bytes - 1 - i;
        target[k] = source[k];
    }
    return to;
}

void *tw_traced_memcpy(void *to, const void *from, size_t bytes) { return tw_traced_memmove(to, from, bytes); }

void *tw_traced_memset(void *to, int value, size_t bytes)
{
    watch(to, bytes, 1);
    for (size_t i = 0; i < bytes; ++i) {
        ((uint8_t *)to)[i] = (uint8_t)value;
    }
    return to;
}

/* what clang puts in for copies of structs */
void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return tw_traced_memmove(to, from, bytes); }
void *__tsan_memmove(void *to, const void *from, size_t bytes) { return tw_traced_memmove(to, from, bytes); }
void *__tsan_memset(void *to, int value, size_t bytes) { return tw_traced_memset(to, value, bytes); }
