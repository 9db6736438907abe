/* stdint.h - for a gcc that comes without a C library: its own header looks for a library's first, and finds this one. */
#include <stdint-gcc.h>
