# @{name}.mk - adds @{models} to a Makefile that STM32CubeMX wrote: after its lists C_SOURCES, C_INCLUDES and LDFLAGS,
#   include Middlewares/Third_Party/@{name}/@{name}.mk
TINYWEAVE_@{NAME} := Middlewares/Third_Party/@{name}

C_SOURCES += \
@{sources}

C_INCLUDES += -I$(TINYWEAVE_@{NAME})/src -I$(TINYWEAVE_@{NAME})/example

# The networks are compiled with -O2, also where the project's OPT is -Og.
$(patsubst %.c,$(BUILD_DIR)/%.o,$(notdir $(wildcard $(TINYWEAVE_@{NAME})/src/*.c))): CFLAGS += -O2
@{place}
# make TW_PROFILE=1 counts cycles by layer
ifdef TW_PROFILE
C_DEFS += -DTW_TRACE=@{name}_profile_step
endif
