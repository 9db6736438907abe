// @{array}.cpp - stands in for the .tflite file of @{model}, whose weights are in the library that was exported with this file.
extern const unsigned char @{array}[];
extern const unsigned int @{array}_len, @{array}_size;
alignas(16) const unsigned char @{array}[] = {@{bytes}};
const unsigned int @{array}_len = sizeof @{array}, @{array}_size = sizeof @{array};
