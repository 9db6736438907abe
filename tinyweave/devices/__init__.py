"""Facts about microcontrollers and boards. In: a name or a TOML file. Out: a Device."""

from .device import KINDS, AddressRange, Device, Memory, all_devices, find, parse_size, read

__all__ = ["KINDS", "AddressRange", "Device", "Memory", "all_devices", "find", "parse_size", "read"]
