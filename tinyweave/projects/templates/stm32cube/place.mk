
# make TW_PLACE=@{memory} puts arenas into the @{memory}; else they lie in .bss
ifneq (,$(filter @{memory},$(TW_PLACE)))
C_DEFS += -D@{macro}
LDFLAGS += -T@{script}
endif
