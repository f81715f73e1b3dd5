/* The C loop of harness_overhead.py: a library function between two clock reads. */

#include <stdint.h>
#include <time.h>

/* Six words are enough for every function called here. Functions with fewer arguments ignore the
 * rest, in the calling conventions of x86-64 and of ARM. All return 0, or a null pointer, on success.
 */
typedef int (*function)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int do_nothing(void) { return 0; }

/* Returns the number of calls, at most `count`, or -1 if one of them failed. */
int64_t run_loop(function call, const intptr_t *words, int64_t duration_ns, int64_t count,
                 int64_t *begin_ns, int64_t *end_ns) {
    const int64_t deadline_ns = now_ns() + duration_ns;
    for (int64_t index = 0; index < count; index++) {
        const int64_t begin = now_ns();
        const int status = call(words[0], words[1], words[2], words[3], words[4], words[5]);
        const int64_t end = now_ns();
        if (status) return -1;
        begin_ns[index] = begin;
        end_ns[index] = end;
        if (end >= deadline_ns) return index + 1;
    }
    return count;
}

static const void *onnx_base;

/* ONNX Runtime calls this in a library of custom operators. It is how the C interface of the library
 * inside of its Python module is found, which exports nothing. */
void *RegisterCustomOps(void *options, const void *base) {
    (void)options;
    onnx_base = base;
    return 0;
}

const void *onnx_api_base(void) { return onnx_base; }
