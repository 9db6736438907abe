"""Run the emitted C on this machine and on emulated cores, and compare its outputs with the reference outputs."""
