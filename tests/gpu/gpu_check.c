/* The checks of the kernels on a device, through the driver, in managed memory that both sides
 * touch: usage: gpu_check [cases of each, 0: as many as on a host]. On the driver for tests
 * (GPU_LIBCUDA) it proves itself only; on a real one, what nvcc made. */
#include "tests/gpu/checks.h"
#include "tests/gpu/real_device.h"

static struct real_device real;
static CUresult (*managed_make)(CUdeviceptr *, size_t, unsigned);

/* Each launch is waited for: the host looks at what it did. */
static int launch_and_wait(struct gpu_queue *q, enum gpu_kernel kernel, unsigned blocks,
                           void **params)
{
    int error = real.device.queue.launch(&real.device.queue, kernel, blocks, params);

    (void)q;
    return error ? error : (int)real.driver.stream_finish(real.device.stream);
}

static int fill_and_wait(struct gpu_queue *q, void *to, uint32_t word, size_t words)
{
    int error = real.device.queue.fill(&real.device.queue, to, word, words);

    (void)q;
    return error ? error : (int)real.driver.stream_finish(real.device.stream);
}

static void *managed(size_t bytes)
{
    CUdeviceptr p;
    enum { EVERYWHERE = 1 };

    if (managed_make(&p, bytes, EVERYWHERE) != CUDA_SUCCESS)
        abort();
    return (void *)(uintptr_t)p;
}

int main(int argc, char **argv)
{
    struct emulated e = {.q = {.launch = launch_and_wait, .fill = fill_and_wait}};
    unsigned cases = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 0;
    char name[100] = "";
    int differ = 0;

    if (argc > 2)
        chance_state = strtoull(argv[2], NULL, 0) * 2 + 1;
    if (!real_open(&real))
        return 1;
    *(void **)(void *)&managed_make = emulated_symbol(real.libcuda, "cuMemAllocManaged");
    array_memory = managed;
    (void)real.driver.device_name(name, sizeof name, real.device.device);
    printf("1..%d\n# %s\n", (int)CHECKS, name);
    for (int i = 0; i < CHECKS; i++) {
        const char *text = run_check(&checks[i], &e, cases);
        if (e.q.error != 0)
            text = gpu_error_name(&real.driver, (CUresult)e.q.error);
        printf("%s %d - %s%s%s\n", text ? "not ok" : "ok", i + 1, checks[i].name, text ? ": " : "",
               text ? text : "");
        differ += text != NULL;
    }
    real_close(&real);
    return differ > 0;
}
