// Runs the networks on samples, and prints the results: on a computer, or on a board by its serial port.
#include <@{header}>

#include "@{name}_example.h"

#ifdef ARDUINO
#include <Arduino.h>

static void print(const char *text)
{
    Serial.print(text);
}

void setup()
{
    Serial.begin(115200);
}

void loop()
{
    @{name}_example(print);
    delay(10000);
}
#else
#include <cstdio>

static void print(const char *text)
{
    std::fputs(text, stdout);
}

int main()
{
    return @{name}_example(print) != 0;
}
#endif
