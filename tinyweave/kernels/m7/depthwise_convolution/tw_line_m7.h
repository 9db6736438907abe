/* tw_line_m7.h - lines of kernels of three rows, in the order that suits a Cortex-M7. */
#ifndef TW_LINE_M7_H
#define TW_LINE_M7_H

#include "tw_line.h"

/* As those without _m7. */
void tw_line_3_1_rows_3_m7(const tw_line *line);
void tw_line_3_2_rows_3_m7(const tw_line *line);

#endif
