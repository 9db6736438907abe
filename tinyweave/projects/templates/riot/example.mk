# make BOARD=... flash term
APPLICATION = @{name}_example
BOARD ?= native
RIOTBASE ?= $(CURDIR)/../../RIOT
EXTERNAL_MODULE_DIRS += $(CURDIR)/..
USEMODULE += @{name}

include $(RIOTBASE)/Makefile.include
