/* main.c - runs the networks on samples, and prints the results on the terminal. */
#include <stdio.h>

#include "@{name}_example.h"

static void print(const char *text) { fputs(text, stdout); }

int main(void) { return @{name}_example(print) != 0; }
