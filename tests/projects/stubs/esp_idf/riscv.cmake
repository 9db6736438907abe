set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "-march=rv32imc -mabi=ilp32 -std=gnu17 -idirafter ${CMAKE_CURRENT_LIST_DIR}/../../../../tinyweave/simulate/include -idirafter ${CMAKE_CURRENT_LIST_DIR}/libc")
