/* main.c - runs the networks on samples, and prints the results on the console. */
#include <stdio.h>

#include "@{name}_example.h"

static void print(const char *text) { fputs(text, stdout); }

void app_main(void) { @{name}_example(print); }
