/* A libnvidia-ml.so.1 that is made up: one board whose power is in a file.
 *
 * EDGEBENCH_FAKE_NVML names the file, which is read at each question:
 *     <number of GPUs> <milliwatts> <milliseconds between updates> <return code of the counter> <name>
 * The counter integrates the power over the monotonic clock, and shows it at its updates.
 *
 * Source of signatures and return codes: nvidia-ml-py, pynvml.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { int index; } Device;
typedef struct { int count, power_mw, period_ms, code; char name[96]; } Board;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_FOUND = 6, NO_DRIVER = 9 };
static Device devices[8];
static int opened;
static double counted_mj, shown_mj;
static long long last_ms = -1, shown_at = -1;

static Board board(void)
{
    Board now = {1, 0, 100, SUCCESS, "NVIDIA Made Up"};
    const char *path = getenv("EDGEBENCH_FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%d %d %d %d %95[^\n]", &now.count, &now.power_mw, &now.period_ms, &now.code, now.name) < 5)
            now.code = INVALID_ARGUMENT;
        fclose(file);
    }
    return now;
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (!getenv("EDGEBENCH_FAKE_NVML")) return NO_DRIVER; /* the test is over */
    opened++;
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!opened) return UNINITIALIZED; opened--; return SUCCESS; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "Some Error"; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = board().count; return opened ? SUCCESS : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device)
{
    if ((int)index >= board().count) return INVALID_ARGUMENT;
    devices[index].index = index;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device)
{
    if (strcmp(uuid, "GPU-00000000-made-up")) return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(0, device);
}

int nvmlDeviceGetName(Device *device, char *name, unsigned length)
{
    (void)device;
    snprintf(name, length, "%s", board().name);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned length)
{
    snprintf(uuid, length, "GPU-%08d-made-up", device->index);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    snprintf(version, length, "575.64.05");
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *energy_mj)
{
    struct timespec now;
    Board one = board();
    (void)device;
    if (!opened) return UNINITIALIZED;
    if (one.code != SUCCESS) return one.code;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long now_ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
    if (last_ms >= 0) counted_mj += one.power_mw * (now_ms - last_ms) / 1000.0;
    last_ms = now_ms;
    if (now_ms / one.period_ms != shown_at) {
        shown_at = now_ms / one.period_ms;
        shown_mj = counted_mj;
    }
    *energy_mj = 5000000ULL + (unsigned long long)shown_mj;
    return SUCCESS;
}
