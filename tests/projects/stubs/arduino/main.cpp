// Arduino's own main: the sketch is compiled behind its header.
#include <Arduino.h>
#include SKETCH
int main() { setup(); loop(); return 0; }
