// What the sketch of an export uses of Arduino's own header.
#pragma once
#include <cstdio>

struct StubSerial {
    void begin(unsigned long baud) { (void)baud; }
    void print(const char *text) { std::fputs(text, stdout); }
};
static StubSerial Serial;
static inline void delay(unsigned long milliseconds) { (void)milliseconds; }
