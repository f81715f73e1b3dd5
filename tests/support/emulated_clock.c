/*
 * The clocks of a device that are coarse, run at a wrong rate, stop or are set. Loaded into each
 * process by LD_PRELOAD; FILE, which emulated_clock.py writes, is shared by all of them.
 *
 * The monotonic clocks and the wall clock come from one oscillator, as on a device. Waits with a
 * deadline are converted to the real clock, because the kernel does not know the emulated one.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_READS (1 << 21)
#define FIRST_WALL_TIME_S 100000000 /* no machine has been up for three years: a later time is of the wall clock */

struct settings {
    int64_t real_ns, emulated_ns; /* a moment on both monotonic clocks */
    double rate, step_ns;
    int64_t set_by_ns, slept_ns;
};

static struct {
    _Atomic int64_t current; /* which of the two is used; the other one may be written */
    struct settings settings[2];
    int64_t is_logged;
    _Atomic int64_t read_count;
    struct {
        int64_t thread, real_ns, emulated_ns;
    } reads[MAX_READS];
} *shared;

static int (*real_gettime)(clockid_t, struct timespec *);

static int64_t to_ns(const struct timespec *time) { return time->tv_sec * 1000000000LL + time->tv_nsec; }

static struct timespec from_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

__attribute__((constructor)) static void open_clock(void)
{
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = open(FILE_OF_CLOCK, O_RDWR | O_CLOEXEC);
    void *map = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!real_gettime || map == MAP_FAILED)
        abort();
    shared = map;
    close(file);
}

static int64_t real_ns_of(clockid_t clock)
{
    struct timespec now;
    if (!real_gettime) /* another library's constructor runs first */
        open_clock();
    real_gettime(clock, &now);
    return to_ns(&now);
}

static struct settings now_set(void) { return shared->settings[atomic_load(&shared->current) & 1]; }

static int64_t emulated_ns(const struct settings *set, int64_t real_ns)
{
    double passed_ns = (double)(real_ns - set->real_ns) * set->rate;
    int64_t ns = set->emulated_ns + (int64_t)passed_ns;
    return set->step_ns > 0 ? (int64_t)(floor((double)ns / set->step_ns) * set->step_ns) : ns;
}

static void log_read(int64_t real_ns, int64_t ns)
{
    static __thread int64_t thread;
    if (!thread)
        thread = syscall(SYS_gettid);
    int64_t index = atomic_fetch_add(&shared->read_count, 1);
    if (index < MAX_READS) {
        shared->reads[index].thread = thread;
        shared->reads[index].real_ns = real_ns;
        shared->reads[index].emulated_ns = ns;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int64_t real_ns = real_ns_of(clock == CLOCK_REALTIME ? CLOCK_MONOTONIC : clock), ns;
    struct settings set = now_set();
    switch (clock) {
    case CLOCK_MONOTONIC:
        ns = emulated_ns(&set, real_ns);
        if (shared->is_logged)
            log_read(real_ns, ns);
        break;
    case CLOCK_MONOTONIC_RAW:
        ns = emulated_ns(&set, real_ns);
        break;
    case CLOCK_BOOTTIME:
        ns = emulated_ns(&set, real_ns) + set.slept_ns;
        break;
    case CLOCK_REALTIME:
        ns = real_ns_of(CLOCK_REALTIME) + emulated_ns(&set, real_ns) - real_ns + set.set_by_ns;
        break;
    default: /* CPU times of processes and threads */
        return real_gettime(clock, now);
    }
    *now = from_ns(ns);
    return 0;
}

/* Time from now to a deadline on an emulated clock, on the real clock. */
static int64_t left_ns(clockid_t clock, const struct timespec *deadline)
{
    struct timespec now;
    clock_gettime(clock, &now);
    int64_t left = to_ns(deadline) - to_ns(&now);
    return left > 0 ? (int64_t)((double)left / now_set().rate) : 0;
}

static struct timespec real_deadline(clockid_t clock, const struct timespec *deadline)
{
    return from_ns(real_ns_of(CLOCK_MONOTONIC) + left_ns(clock, deadline));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, int, const struct timespec *, struct timespec *))dlsym(
            RTLD_NEXT, "clock_nanosleep");
    if (!(flags & TIMER_ABSTIME))
        return real(clock, flags, until, left);
    struct timespec deadline = real_deadline(clock, until);
    return real(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, left);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    if (!real)
        real = (int (*)(sem_t *, clockid_t, const struct timespec *))dlsym(RTLD_NEXT, "sem_clockwait");
    struct timespec deadline = real_deadline(clock, until);
    return real(semaphore, CLOCK_MONOTONIC, &deadline);
}

/* The clock is an attribute of the condition, which cannot be read. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    clockid_t clock = until->tv_sec < FIRST_WALL_TIME_S ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    struct timespec deadline = real_deadline(clock, until);
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &deadline);
}
