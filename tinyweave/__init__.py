"""tinyweave fits int8 neural networks into microcontrollers; the public functions are those of `tinyweave.api`."""

__version__ = "0.1.0"
