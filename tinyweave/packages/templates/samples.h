/* @{model}_samples.h - inputs for the example of @{file}, and what the reference computes of them, as bytes in memory. */
#ifndef @{NAME}_SAMPLES_H
#define @{NAME}_SAMPLES_H

#include <stdint.h>

#include "@{model}.h"

#define @{NAME}_SAMPLES @{count}

@{arrays}
#endif
