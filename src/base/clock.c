#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

double clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

void clock_idle(double ms)
{
    const long whole_s = (long)(ms / 1e3);
    const struct timespec pause = { whole_s, (long)(1e6 * (ms - 1e3 * (double)whole_s)) };
    nanosleep(&pause, NULL);
}
