/* The checks of the kernels on a device, through the driver, in managed memory that both sides
 * touch: usage: gpu_check [cases of each, 0: as many as on a host]. On the driver for tests
 * (GPU_LIBCUDA) it proves itself only; on a real one, what nvcc made. */
#include "gpu/images.h"
#include "tests/gpu/checks.h"

static struct gpu_device device;
static struct gpu_driver driver;
static CUresult (*managed_make)(CUdeviceptr *, size_t, unsigned);

/* Each launch is waited for: the host looks at what it did. */
static int launch_and_wait(struct gpu_queue *q, enum gpu_kernel kernel, unsigned blocks,
                           void **params)
{
    int error = device.queue.launch(&device.queue, kernel, blocks, params);

    (void)q;
    return error ? error : (int)driver.stream_finish(device.stream);
}

static int fill_and_wait(struct gpu_queue *q, void *to, uint32_t word, size_t words)
{
    int error = device.queue.fill(&device.queue, to, word, words);

    (void)q;
    return error ? error : (int)driver.stream_finish(device.stream);
}

static void *managed(size_t bytes)
{
    CUdeviceptr p;
    enum { EVERYWHERE = 1 };

    if (managed_make(&p, bytes, EVERYWHERE) != CUDA_SUCCESS)
        abort();
    return (void *)(uintptr_t)p;
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "gpu_check: %s: %s\n", what, why ? why : "unknown");
    return 1;
}

static const struct gpu_images *find_images(void *libcuda)
{
    static const unsigned fat_binary[] = {0xba55ed50u, 0, 0, 0};
    static const void *const image[] = {fat_binary};
    static const struct gpu_images none = {image, 1, 13000};
    void *library;

    if (dlsym(libcuda, "test_driver"))
        return &none;
    library = dlopen(beside_me("../../libsparseshim_cuda.so"), RTLD_NOW);
    return library ? emulated_symbol(library, "gpu_images") : NULL;
}

static int open_device(void)
{
    const char *path = getenv("GPU_LIBCUDA");
    void *libcuda = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    CUresult (*initialise)(unsigned);
    char why[200];
    const char *text;

    if (!libcuda)
        return fail("the driver", dlerror());
    text = gpu_driver_find(&driver, libcuda);
    if (text)
        return fail("the driver lacks", text);
    *(void **)(void *)&initialise = emulated_symbol(libcuda, "cuInit");
    *(void **)(void *)&managed_make = emulated_symbol(libcuda, "cuMemAllocManaged");
    if (initialise(0) != CUDA_SUCCESS)
        return fail("cuInit", "no device");
    const struct gpu_images *images = find_images(libcuda);
    if (!images)
        return fail("libsparseshim_cuda.so", dlerror());
    text = gpu_device_open(&device, &driver, images, NULL, 0, why);
    if (text)
        return fail("the device", text);
    return gpu_device_enter(&device);
}

int main(int argc, char **argv)
{
    struct emulated e = {.q = {.launch = launch_and_wait, .fill = fill_and_wait}};
    unsigned cases = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 0;
    char name[100] = "";
    int differ = 0;

    if (argc > 2)
        chance_state = strtoull(argv[2], NULL, 0) * 2 + 1;
    if (open_device() != 0)
        return 1;
    array_memory = managed;
    (void)driver.device_name(name, sizeof name, device.device);
    printf("1..%d\n# %s\n", (int)CHECKS, name);
    for (int i = 0; i < CHECKS; i++) {
        const char *text = run_check(&checks[i], &e, cases);
        if (e.q.error != 0)
            text = gpu_error_name(&driver, (CUresult)e.q.error);
        printf("%s %d - %s%s%s\n", text ? "not ok" : "ok", i + 1, checks[i].name, text ? ": " : "",
               text ? text : "");
        differ += text != NULL;
    }
    gpu_device_leave(&device);
    gpu_device_close(&device);
    return differ > 0;
}
