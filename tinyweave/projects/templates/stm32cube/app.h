/* @{name}_app.h - call @{name}_app() from main.c, in a USER CODE block after the peripherals are initialised. */
#ifndef @{NAME}_APP_H
#define @{NAME}_APP_H

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the networks on samples, and prints the results on the UART. Returns how many outputs are not the reference's. */
int @{name}_app(void);

#ifdef __cplusplus
}
#endif

#endif
