typedef void (*printer)(const char *text);

@{print_integer}
#ifdef TW_FIRMWARE
void print(const char *text); /* these are in startup.c */
int32_t firmware_read(void *destination, int32_t count);
int32_t firmware_rewind(void);
uint32_t firmware_stack(void);
#else
#include <stdio.h>
static void print(const char *text) { fputs(text, stdout); }
static int32_t firmware_read(void *destination, int32_t count) { return (int32_t)fread(destination, 1, (size_t)count, stdin); }
int32_t firmware_rewind(void); /* not static: some programs never call it */
int32_t firmware_rewind(void) { return fseek(stdin, 0, SEEK_SET); }
static uint32_t firmware_stack(void) { return 0; }
#endif

/* Print words and numbers one after the other: a word, a number, a word, ... */
static void say(const char *word, int32_t number)
{
    print(word);
    print_integer(print, number);
}
