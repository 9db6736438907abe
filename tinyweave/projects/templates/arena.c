static uint8_t @{name}_arena[@{NAME}_SRAM_BYTES] __attribute__((aligned(@{NAME}_ALIGN)));
static const @{name}_memory @{name}_ram = {.sram = {@{name}_arena, sizeof @{name}_arena}@{weights}};

