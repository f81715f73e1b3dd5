/* CLOCK_BOOTTIME of a system that slept: FILE has the seconds that it slept beside those that it did. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_BOOTTIME) {
        FILE *file = fopen(FILE_OF_SLEEP, "re");
        long slept_s = 0;
        if (file) {
            if (fscanf(file, "%ld", &slept_s) == 1)
                now->tv_sec += slept_s;
            fclose(file);
        }
    }
    return result;
}
