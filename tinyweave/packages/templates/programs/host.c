typedef void (*printer)(const char *text);

@{print_integer}
#ifdef TW_FIRMWARE
void print(const char *text); /* these are in startup.c */
int32_t firmware_read(void *destination, int32_t count);
uint32_t firmware_stack(void);
#else
#include <stdio.h>
static void print(const char *text) { fputs(text, stdout); }
static int32_t firmware_read(void *destination, int32_t count) { return (int32_t)fread(destination, 1, (size_t)count, stdin); }
static uint32_t firmware_stack(void) { return 0; }
#endif

/* Print words and numbers one after the other: a word, a number, a word, ... */
static void say(const char *word, int32_t number)
{
    print(word);
    print_integer(print, number);
}
