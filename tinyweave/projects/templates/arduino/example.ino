// Runs the networks on samples, and prints the results: open the serial monitor at 115200 baud.
#include <@{header}>

#include "@{name}_example.h"

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
