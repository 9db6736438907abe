/* main.c - runs the networks on samples, and prints the results on standard output: retarget it to a UART or the ITM. */
#include <stdio.h>

#include "@{name}_example.h"

static void print(const char *text) { fputs(text, stdout); }

int main(void)
{
    @{name}_example(print);
    for (;;) {
    }
}
