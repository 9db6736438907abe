/* main.c - runs the example, on a computer or as the firmware of a board that QEMU emulates. */
#include "@{name}_example.h"

#ifdef TW_FIRMWARE
void print(const char *text); /* of startup.c */
#else
#include <stdio.h>
static void print(const char *text) { fputs(text, stdout); }
#endif

int main(void) { return @{name}_example(print) != 0; }
