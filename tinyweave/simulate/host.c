/* host.c - runs an emitted model in a process of its own, for host.py, which speaks to it through stdin and stdout.
 *
 * It is compiled once for all models; host_model.c connects it to the model that it is linked with. Every memory is mapped
 * between inaccessible pages. Its initial contents come with the request, its final contents go into the answer. All numbers
 * are int64_t.
 *
 * Request: the number of memories; whether a callback reads the last one, a file of weights; the memories {name[64], size,
 * base, bytes, image}; for the inputs their bytes, then the bytes of a row of each, 0 if it is not streamed, then 1 for each that
 * write_input takes as floats; the same for the outputs; the rounds {1, data of all inputs: an inference; or 0: a reset}, the
 * last of which is an inference; whether to report the steps of the last one.
 * Answer: for each reported step 'S' step, after which the client sends 'R' memory offset bytes, to read data, or 'C', to
 * continue. Then 'D' status, the outputs of all inferences, the final images.
 */
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "host_model.h"

typedef struct { char name[64]; uint8_t *mapped; int64_t size, base, bytes; } memory;

static const int64_t guard = (int64_t)1 << 20; /* inaccessible bytes before and after each memory */

typedef struct { void *data; size_t bytes; } block; /* a memory in the model's struct, in the order of the request */

static memory *memories;
static int64_t memory_count;
static int64_t report_steps;
static volatile int64_t last_step = -1;
static const char *volatile running = "";

static void take(void *to, int64_t bytes)
{
    if (fread(to, 1, (size_t)bytes, stdin) != (size_t)bytes) {
        exit(0);
    }
}

static int64_t take_number(void)
{
    int64_t number;
    take(&number, sizeof number);
    return number;
}

static void give(const void *from, int64_t bytes)
{
    if (fwrite(from, 1, (size_t)bytes, stdout) != (size_t)bytes) {
        exit(0);
    }
}

static void give_number(int64_t number) { give(&number, sizeof number); }

static void stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    fflush(stderr);
    _exit(70);
}

static void *allocate(int64_t bytes)
{
    void *data = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (data == NULL) {
        stop("the host does not have enough memory for this model");
    }
    return data;
}

static uint8_t *arena(const memory *m) { return m->mapped + guard + m->base; }

/* Report an access to the guard pages, or undefined behaviour that the sanitizer trapped, and end the process. */
static void on_signal(int signal_number, siginfo_t *info, void *context)
{
    char where[160] = "", step[48] = "", text[512];
    const int64_t address = (int64_t)(intptr_t)info->si_addr;
    (void)context;
    if (last_step >= 0) {
        snprintf(step, sizeof step, " after step %lld", (long long)last_step);
    }
    if (signal_number == SIGILL || signal_number == SIGTRAP || signal_number == SIGFPE) {
        snprintf(text, sizeof text, "%s_%s%s: undefined behaviour (trapped)", host_model.name, running, step);
        stop(text);
    }
    snprintf(where, sizeof where, "at address 0x%llx", (unsigned long long)address);
    for (int64_t i = 0; i < memory_count; ++i) {
        const memory *m = &memories[i];
        const int64_t offset = address - (int64_t)(intptr_t)arena(m);
        if (offset < 0 && offset >= -m->base - guard) {
            snprintf(where, sizeof where, "%lld bytes before %s", (long long)-offset, m->name);
        } else if (offset >= m->bytes && offset < m->size - m->base + guard) {
            snprintf(where, sizeof where, "%lld bytes past the end of %s", (long long)(offset - m->bytes), m->name);
        }
    }
    snprintf(text, sizeof text, "%s_%s%s: access outside of the model's memory, %s", host_model.name, running, step, where);
    stop(text);
}

static void watch_signals(void)
{
    static uint8_t stack[65536];
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
    stack_t other = {0};
    struct sigaction action;
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, NULL);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; ++i) {
        sigaction(signals[i], &action, NULL);
    }
}

static pid_t parent;

static void on_second(int signal_number)
{
    (void)signal_number;
    if (getppid() != parent) {
        _exit(70);
    }
}

/* Check every second whether the parent process still exists. If it was killed, nothing else would end this process. */
static void watch_parent(void)
{
    const char *number = getenv("TINYWEAVE_PARENT");
    const struct itimerval second = {{1, 0}, {1, 0}};
    struct sigaction action;
    if (number == NULL) {
        return;
    }
    parent = (pid_t)strtol(number, NULL, 10);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_second;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &second, NULL);
}

/* Map a memory between inaccessible pages and read its contents from the request. */
static void map(memory *m)
{
    take(m->name, sizeof m->name);
    m->size = take_number();
    m->base = take_number();
    m->bytes = take_number();
    m->mapped = mmap(NULL, (size_t)(m->size + 2 * guard), PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (m->mapped == MAP_FAILED || mprotect(m->mapped + guard, (size_t)m->size, PROT_READ | PROT_WRITE) != 0) {
        stop("the host does not have enough memory for this model");
    }
    take(m->mapped + guard, m->size);
}

#ifdef TW_TRACE
void TW_TRACE(int32_t step, int32_t layer)
{
    if (layer >= 0) {
        return; /* in a stage */
    }
    last_step = step;
    if (!report_steps) {
        return;
    }
    give("S", 1);
    give_number(step);
    fflush(stdout);
    for (;;) {
        char command;
        take(&command, 1);
        if (command == 'C') {
            return;
        }
        const memory *m = &memories[take_number()];
        const int64_t offset = take_number();
        give(arena(m) + offset, take_number());
        fflush(stdout);
    }
}
#endif

/* Copy bytes of the file of weights, which is the memory `context`, as its model requests; fail beyond the end. */
static int read_weights(void *context, uint32_t offset, void *destination, uint32_t bytes)
{
    const memory *file = context;
    if (offset > file->bytes || bytes > file->bytes - offset) {
        return 9;
    }
    memcpy(destination, arena(file) + offset, bytes);
    return 0;
}

static int64_t *take_numbers(int64_t count)
{
    int64_t *numbers = allocate(count * (int64_t)sizeof *numbers);
    take(numbers, count * (int64_t)sizeof *numbers);
    return numbers;
}

static int64_t sum(const int64_t *numbers, int64_t count)
{
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
        total += numbers[i];
    }
    return total;
}

/* The inputs or the outputs. data: their contents, one after the other. row_bytes: bytes of a row of a streamed one, else 0.
 * floats: whether write_input or read_output converts it. rows: rows of a streamed output that have been received. */
typedef struct { uint8_t *data; int64_t count, *bytes, *row_bytes, *floats, *rows; } tensors;

enum { most = 1000 }; /* most floats per call of write_input or read_output: several calls test `first` and `count` */

typedef struct { tensors inputs, outputs; } ends;

static tensors take_tensors(void)
{
    tensors found = {NULL, take_number(), NULL, NULL, NULL, NULL};
    found.bytes = take_numbers(found.count);
    found.row_bytes = take_numbers(found.count);
    found.floats = take_numbers(found.count);
    found.rows = allocate(found.count * (int64_t)sizeof *found.rows);
    return found;
}

static void free_tensors(tensors *of)
{
    free(of->bytes);
    free(of->row_bytes);
    free(of->floats);
    free(of->rows);
}

/* Return the address of rows of a streamed tensor; stop with the message `why` if they do not exist. */
static uint8_t *find_rows(const tensors *of, int32_t index, int32_t first, int32_t count, const char *why)
{
    const int64_t row = index >= 0 && index < of->count ? of->row_bytes[index] : 0;
    if (row == 0 || first < 0 || count < 0 || ((int64_t)first + count) * row > of->bytes[index]) {
        stop(why);
    }
    return of->data + sum(of->bytes, index) + first * row;
}

static int read_rows(void *user, int32_t input, int32_t first, int32_t count, void *destination)
{
    const tensors *from = &((const ends *)user)->inputs;
    const uint8_t *rows = find_rows(from, input, first, count, "the model called read_rows for rows that do not exist");
    memcpy(destination, rows, (size_t)(count * from->row_bytes[input]));
    return 0;
}

static int write_rows(void *user, int32_t output, int32_t first, int32_t count, const void *source)
{
    const tensors *to = &((const ends *)user)->outputs;
    uint8_t *rows = find_rows(to, output, first, count, "the model called write_rows for rows that do not exist");
    if (first != to->rows[output]) {
        stop("the model called write_rows out of order");
    }
    memcpy(rows, source, (size_t)(count * to->row_bytes[output]));
    to->rows[output] += count;
    return 0;
}

/* Pass the floats of an input or output in pieces to write_piece or read_piece. */
static void convert(const block *blocks, const tensors *of, int64_t index, int (*call)(const void *, int32_t, piece *))
{
    uint8_t *const all = of->data + sum(of->bytes, index); /* may be unaligned */
    const int32_t count = (int32_t)(of->bytes[index] / (int64_t)sizeof(float));
    piece *part = allocate((int64_t)(sizeof *part + most * sizeof(float)));
    for (part->first = 0; part->first < count; part->first += most) {
        part->count = count - part->first < most ? count - part->first : most;
        uint8_t *const floats = all + (size_t)part->first * sizeof(float);
        memcpy(part->values, floats, (size_t)part->count * sizeof(float));
        if (call(blocks, (int32_t)index, part) != 0) {
            stop("write_input or read_output of the model failed");
        }
        memcpy(floats, part->values, (size_t)part->count * sizeof(float));
    }
    free(part);
}

/* Run one inference and return the status of invoke. */
static int64_t infer(const block *blocks, ends *of)
{
    const host_io io = {of, read_rows, write_rows};
    const tensors *inputs = &of->inputs, *outputs = &of->outputs;
    running = "input";
    for (int64_t i = 0; i < inputs->count; ++i) {
        void *to = host_model.input(blocks, (int32_t)i);
        if ((to == NULL) != (inputs->row_bytes[i] != 0)) {
            stop("the model streams other inputs than the caller declared");
        }
        if (to != NULL && inputs->floats[i]) {
            convert(blocks, inputs, i, host_model.write_piece);
        } else if (to != NULL) {
            memcpy(to, inputs->data + sum(inputs->bytes, i), (size_t)inputs->bytes[i]);
        }
    }
    memset(outputs->rows, 0, (size_t)outputs->count * sizeof *outputs->rows);
    last_step = -1;
    running = "invoke";
    const int64_t status = host_model.invoke(blocks, &io);
    running = "output";
    for (int64_t i = 0; i < outputs->count && status == 0; ++i) {
        const void *from = host_model.output(blocks, (int32_t)i);
        if ((from == NULL) != (outputs->row_bytes[i] != 0)) {
            stop("the model streams other outputs than the caller declared");
        }
        if (from != NULL && outputs->floats[i]) {
            convert(blocks, outputs, i, host_model.read_piece);
        } else if (from != NULL) {
            memcpy(outputs->data + sum(outputs->bytes, i), from, (size_t)outputs->bytes[i]);
        } else if (outputs->rows[i] * outputs->row_bytes[i] != outputs->bytes[i]) {
            stop("the model did not pass on all rows of an output");
        }
    }
    return status;
}

static void serve(void)
{
    int64_t status;

    memory_count = take_number();
    const int64_t by_read = take_number();
    if ((memory_count + by_read) * (int64_t)sizeof(block) != host_model.memory_bytes) {
        stop("the model has another number of memories than the caller declared");
    }
    memories = allocate(memory_count * (int64_t)sizeof *memories);
    block *blocks = allocate(host_model.memory_bytes);
    for (int64_t i = 0; i < memory_count; ++i) {
        map(&memories[i]);
        blocks[i].data = arena(&memories[i]);
        blocks[i].bytes = (size_t)memories[i].bytes;
    }
    if (by_read) { /* the model's struct has the callback and its context in place of data and bytes, and NULL behind */
        const struct { int (*read)(void *, uint32_t, void *, uint32_t); void *context, *start_and_wait[2]; } reader = {
            read_weights, &memories[memory_count - 1], {NULL, NULL}};
        memcpy(&blocks[memory_count - 1], &reader, sizeof reader);
    }
    ends of;
    of.inputs = take_tensors();
    of.outputs = take_tensors();
    const int64_t input_bytes = sum(of.inputs.bytes, of.inputs.count), output_bytes = sum(of.outputs.bytes, of.outputs.count);
    const int64_t rounds = take_number();
    uint8_t **data = allocate(rounds * (int64_t)sizeof *data); /* all of a round's inputs; NULL for a reset */
    uint8_t **results = allocate(rounds * (int64_t)sizeof *results);
    for (int64_t round = 0; round < rounds; ++round) {
        results[round] = NULL;
        data[round] = take_number() ? allocate(input_bytes) : NULL;
        if (data[round] != NULL) {
            take(data[round], input_bytes);
        }
    }
    const int64_t report_last = take_number();

    last_step = -1;
    report_steps = 0;
    running = "init";
    status = host_model.init(blocks);
    for (int64_t round = 0; round < rounds && status == 0; ++round) {
        if (data[round] == NULL) {
            running = "reset";
            host_model.reset(blocks);
            continue;
        }
        report_steps = report_last && round == rounds - 1;
        results[round] = allocate(output_bytes);
        of.inputs.data = data[round];
        of.outputs.data = results[round];
        status = infer(blocks, &of);
    }
    give("D", 1);
    give_number(status);
    for (int64_t round = 0; round < rounds; ++round) {
        if (status == 0 && data[round] != NULL) {
            give(results[round], output_bytes);
        }
        free(data[round]);
        free(results[round]);
    }
    for (int64_t i = 0; i < memory_count; ++i) {
        give(memories[i].mapped + guard, memories[i].size);
        munmap(memories[i].mapped, (size_t)(memories[i].size + 2 * guard));
    }
    fflush(stdout);
    free(memories);
    free(blocks);
    free(data);
    free(results);
    free_tensors(&of.inputs);
    free_tensors(&of.outputs);
}

int main(void)
{
    watch_signals();
    watch_parent();
    for (;;) {
        serve();
    }
}
