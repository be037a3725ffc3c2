/* The library of device buffers as it was built, where there is a compiler for it: it needs libc
 * alone, gives away what it should and no more, and nvcc made a kernel of every name. */
#include <glob.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "gpu/door.h"
#include "gpu/queue/modules.h"
#include "tests/gpu/emulated.h"

static void *library(void)
{
    void *handle = dlopen(beside_me("../../libsparseshim_cuda.so"), RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        fail_msg("%s", dlerror());
    return handle;
}

static void it_needs_libc_alone(void **state)
{
    struct link_map *map;
    const char *names = NULL;
    size_t needed = 0;

    (void)state;
    assert_int_equal(dlinfo(library(), RTLD_DI_LINKMAP, &map), 0);
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            names = (const char *)d->d_un.d_ptr;
    assert_non_null(names);
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag != DT_NEEDED)
            continue;
        assert_string_equal(names + d->d_un.d_val, "libc.so.6");
        needed++;
    }
    assert_int_equal(needed, 1);
}

static void it_holds_fat_binaries(void **state)
{
    const struct gpu_modules *modules = emulated_symbol(library(), "gpu_modules");

    (void)state;
    assert_true(modules->count > 0 && modules->count <= GPU_MODULES_MOST);
    assert_true(modules->version >= 11000);
    for (size_t i = 0; i < modules->count; i++)
        assert_int_equal(*(const unsigned *)modules->image[i], 0xba55ed50u);
    assert_null(dlsym(library(), "gpu_claim"));
    assert_null(dlsym(library(), "gpu_device_open"));
    assert_int_equal(
        ((const struct gpu_door *)emulated_symbol(library(), "sparseshim_cuda"))->version,
        GPU_DOOR_VERSION);
}

/* Of one file of machine code: whether it has the kernel. */
static bool has_kernel(const char *path, const char *name)
{
    char section[100];
    struct stat file;
    FILE *in = fopen(path, "rb");

    (void)snprintf(section, sizeof section, ".text.ss_%s", name);
    assert_non_null(in);
    assert_int_equal(fstat(fileno(in), &file), 0);
    char *text = malloc((size_t)file.st_size);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)file.st_size, in), file.st_size);
    bool found = memmem(text, (size_t)file.st_size, section, strlen(section) + 1) != NULL;
    free(text);
    (void)fclose(in);
    return found;
}

/* Where the driver is asked for it. */
static void nvcc_made_every_kernel(void **state)
{
    static const struct {
        const char *file, *name;
    } kernels[] = {
#define NAME(file, name) {#file, #name},
        GPU_KERNELS(NAME)
#undef NAME
    };
    const struct gpu_modules *modules = emulated_symbol(library(), "gpu_modules");
    char pattern[100];
    glob_t files;

    (void)state;
    for (int k = 0; k < GPU_KERNELS_ALL; k++) {
        assert_true(modules->of[k] < modules->count);
        (void)snprintf(pattern, sizeof pattern, "../../gpu/%s.*.cubin", kernels[k].file);
        assert_int_equal(glob(beside_me(pattern), 0, NULL, &files), 0);
        for (size_t f = 0; f < files.gl_pathc; f++)
            if (!has_kernel(files.gl_pathv[f], kernels[k].name))
                fail_msg("no ss_%s in %s", kernels[k].name, files.gl_pathv[f]);
        globfree(&files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_needs_libc_alone),
        cmocka_unit_test(it_holds_fat_binaries),
        cmocka_unit_test(nvcc_made_every_kernel),
    };
    return cmocka_run_group_tests_name("gpu_modules", tests, NULL, NULL);
}
