@{head}
#ifndef @{NAME}_SAMPLES_H
#define @{NAME}_SAMPLES_H

#include <stdint.h>

#include "@{model}.h"

#define @{NAME}_SAMPLES @{count}

@{arrays}
#endif
