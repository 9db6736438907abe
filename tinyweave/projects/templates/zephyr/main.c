/* main.c - runs the networks on samples, and prints the results on the console. */
#include <zephyr/sys/printk.h>

#include "@{name}_example.h"

static void print(const char *text) { printk("%s", text); }

int main(void)
{
    @{name}_example(print);
    return 0;
}
