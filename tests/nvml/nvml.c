/* A stand-in of NVIDIA's libnvidia-ml.so.1 for tests: the functions that Trackside asks pynvml for.
 *
 * What they answer is read anew at each call from the text file that FAKE_NVML_STATE names (standin.py
 * writes it), so that a test can change a GPU while a process looks at it. Without the variable there
 * is no driver. Each opening and closing of the library is a line in that file's neighbour `.calls`.
 * The layout of the structures: nvml.h of CUDA 12.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_GPUS 16
#define MAX_PROCESSES 64
#define EXPORT __attribute__((visibility("default")))

typedef unsigned long long u64;

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, VERSION_MISMATCH = 25
};

typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_info;
typedef struct { void *device; u64 type, number; unsigned gpu_instance, compute_instance; } event;

typedef struct {
    int code, utilisation, processes;
    u64 total, used, reserved;
    char uuid[96], name[96];
    process_info process[MAX_PROCESSES];
} gpu;

typedef struct {
    int driver, generation, hangs, gpus, xid_count, xid_gpu;
    u64 xid;
    gpu gpu[MAX_GPUS];
} world;

static char handles[MAX_GPUS];
static int opened, opened_generation, xids_told;

static void read_line(world *found, const char *line)
{
    gpu one;
    int index, pid;
    long long used;

    memset(&one, 0, sizeof one);
    if (sscanf(line, "driver %d %d %d", &found->driver, &found->generation, &found->hangs) == 3)
        return;
    if (sscanf(line, "xid %d %d %llu", &found->xid_count, &found->xid_gpu, &found->xid) == 3)
        return;
    if (sscanf(line, "process %d %d %lld", &index, &pid, &used) == 3 && index >= 0 && index < MAX_GPUS) {
        gpu *on = &found->gpu[index];
        if (on->processes < MAX_PROCESSES) {
            process_info item = {(unsigned)pid, (u64)used, (unsigned)-1, (unsigned)-1};
            on->process[on->processes++] = item;
        }
        return;
    }
    if (sscanf(line, "gpu %d %d %llu %llu %llu %d %95s %95[^\n]", &index, &one.code, &one.total, &one.used,
               &one.reserved, &one.utilisation, one.uuid, one.name) == 8 && index >= 0 && index < MAX_GPUS) {
        found->gpu[index] = one;
        if (found->gpus <= index)
            found->gpus = index + 1;
    }
}

static int look_once(world *found)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];

    memset(found, 0, sizeof *found);
    if (!file)
        return DRIVER_NOT_LOADED;
    while (fgets(line, sizeof line, file))
        read_line(found, line);
    fclose(file);
    return found->driver;
}

/* Reads the state; a driver that hangs keeps the caller until it no longer does. */
static int look(world *found)
{
    int code = look_once(found);

    while (found->hangs) {
        usleep(5000);
        code = look_once(found);
    }
    return code;
}

static int look_opened(world *found)
{
    int code = look(found);

    if (code == SUCCESS && (!opened || opened_generation != found->generation))
        return UNINITIALIZED;
    return code;
}

static int look_at(const void *handle, world *found, gpu **one)
{
    long index = (const char *)handle - handles;
    int code = look_opened(found);

    if (code != SUCCESS)
        return code;
    if (index < 0 || index >= found->gpus)
        return INVALID_ARGUMENT;
    *one = &found->gpu[index];
    return (*one)->code;
}

static void note(const char *call)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s.calls", getenv("FAKE_NVML_STATE") ? getenv("FAKE_NVML_STATE") : "");
    if (path[0] != '.' && (file = fopen(path, "a"))) {
        fprintf(file, "%s\n", call);
        fclose(file);
    }
}

EXPORT int nvmlInitWithFlags(unsigned flags)
{
    world found;
    int code = look(&found);

    (void)flags;
    if (code == SUCCESS) {
        opened++;
        opened_generation = found.generation;
        xids_told = found.xid_count;
        note("init");
    }
    return code;
}

EXPORT int nvmlShutdown(void)
{
    if (!opened)
        return UNINITIALIZED;
    opened--;
    note("shutdown");
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code)
{
    return code == SUCCESS ? "Success" : "an error of the stand-in";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    world found;
    int code = look_opened(&found);

    *count = (unsigned)found.gpus;
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    world found;
    gpu *one;

    if (index >= MAX_GPUS)
        return INVALID_ARGUMENT;
    *handle = &handles[index];
    return look_at(*handle, &found, &one);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
    world found;
    int index, code = look_opened(&found);

    for (index = 0; code == SUCCESS && index < found.gpus; index++)
        if (!strcmp(found.gpu[index].uuid, uuid)) {
            *handle = &handles[index];
            return found.gpu[index].code;
        }
    return code == SUCCESS ? NOT_FOUND : code;
}

static int text(const void *handle, char *to, unsigned size, int is_uuid)
{
    world found;
    gpu *one;
    int code = look_at(handle, &found, &one);

    if (code == SUCCESS)
        snprintf(to, size, "%s", is_uuid ? one->uuid : one->name);
    return code;
}

EXPORT int nvmlDeviceGetName(const void *handle, char *name, unsigned size)
{
    return text(handle, name, size, 0);
}

EXPORT int nvmlDeviceGetUUID(const void *handle, char *uuid, unsigned size)
{
    return text(handle, uuid, size, 1);
}

EXPORT int nvmlDeviceGetMemoryInfo(const void *handle, memory_v1 *memory)
{
    world found;
    gpu *one;
    int code = look_at(handle, &found, &one);

    if (code == SUCCESS) {
        memory->total = one->total;
        memory->used = one->used;
        memory->free = one->total - one->used;
    }
    return code;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(const void *handle, memory_v2 *memory)
{
    world found;
    gpu *one;
    int code = look_at(handle, &found, &one);

    if (code == SUCCESS && memory->version != (sizeof *memory | 2u << 24))
        return VERSION_MISMATCH;
    if (code == SUCCESS) {
        memory->total = one->total;
        memory->reserved = one->reserved;
        memory->used = one->used - one->reserved;
        memory->free = one->total - one->used;
    }
    return code;
}

EXPORT int nvmlDeviceGetUtilizationRates(const void *handle, utilization *rates)
{
    world found;
    gpu *one;
    int code = look_at(handle, &found, &one);

    if (code != SUCCESS)
        return code;
    if (one->utilisation < 0)
        return NOT_SUPPORTED;
    rates->gpu = (unsigned)one->utilisation;
    rates->memory = 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const void *handle, unsigned *count, process_info *infos)
{
    world found;
    gpu *one;
    int code = look_at(handle, &found, &one);
    unsigned there;

    if (code != SUCCESS)
        return code;
    there = (unsigned)one->processes;
    if (*count < there) {
        *count = there;
        return INSUFFICIENT_SIZE;
    }
    *count = there;
    if (there)
        memcpy(infos, one->process, there * sizeof *infos);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(const void *handle, unsigned *count, process_info *infos)
{
    world found;
    gpu *one;

    (void)infos;
    *count = 0;
    return look_at(handle, &found, &one);
}

EXPORT int nvmlEventSetCreate(void **set)
{
    world found;

    *set = handles;
    return look_opened(&found);
}

EXPORT int nvmlDeviceRegisterEvents(const void *handle, u64 types, void *set)
{
    world found;
    gpu *one;

    (void)types;
    (void)set;
    return look_at(handle, &found, &one);
}

EXPORT int nvmlEventSetWait_v2(void *set, event *told, unsigned timeout_ms)
{
    world found;
    int code = look_opened(&found);

    (void)set;
    (void)timeout_ms;
    if (code != SUCCESS)
        return code;
    if (xids_told >= found.xid_count)
        return TIMEOUT;
    xids_told = found.xid_count;
    memset(told, 0, sizeof *told);
    told->device = &handles[found.xid_gpu];
    told->type = 8;
    told->number = found.xid;
    return SUCCESS;
}
