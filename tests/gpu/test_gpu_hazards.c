/* What watches emulated kernels (tests/gpu/hazards.cpp) finds each hazard that it looks for, in
 * whatever order threads run, and nothing else. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/gpu/emulated.h"

enum { BLOCKS = 3, CASE_THREADS = 64, WORDS = BLOCKS * CASE_THREADS, SEEDS = 4 };

struct hazard {
    const char *kernel, *found; /* NULL: there is nothing */
    bool zeros;                 /* device memory begins as zeros */
};

static void *library;

static const struct hazard hazards[] = {
    {"barrier_missing", "race", false},
    {"barrier_of_a_warp_only", "race", false},
    {"barrier_there", NULL, false},
    {"warp_barrier_missing", "race", false},
    {"shuffle_for_a_barrier", "race", false},
    {"warp_barrier_there", NULL, false},
    {"room_used_again", "race", false},
    {"room_used_again_behind", NULL, false},
    {"two_write", "race", false},
    {"two_add", NULL, false},
    {"read_beside_adds", "race", false},
    {"bytes_of_a_word", NULL, false},
    {"shared_not_written", "nobody has written: shared", false},
    {"device_not_written", "nobody has written: device", false},
    {"device_not_written", NULL, true},
    {"one_past_the_end", "outside of any allocation", false},
    {"blocks_write", "race", false},
    {"blocks_agree", NULL, false},
    {"last_without_fence", "race", true},
    {"last_with_fences", NULL, true},
    {"votes_at_two_places", "unlike places", false},
    {"barriers_at_two_places", "unlike places", false},
};

/* As the driver for tests tells of it. */
static uint32_t *device_memory(bool zeros)
{
    static uint32_t arena[4 * WORDS];
    void (*tell_arena)(const char *, size_t);
    void (*allocated)(const char *, size_t, bool);
    uint32_t *out = arena + WORDS;

    *(void **)(void *)&tell_arena = emulated_symbol(library, "emulated_arena");
    *(void **)(void *)&allocated = emulated_symbol(library, "emulated_allocated");
    memset(arena, zeros ? 0 : 0xa5, sizeof arena);
    tell_arena((const char *)arena, sizeof arena);
    allocated((const char *)out, WORDS * sizeof *out, zeros);
    return out;
}

static void run(const struct hazard *h, uint64_t seed)
{
    emulated_launcher *launch;
    const struct emulated_kernel *kernel;
    uint32_t *out = device_memory(h->zeros);
    void *params[] = {&out};
    char name[100];

    (void)snprintf(name, sizeof name, "emulated_%s", h->kernel);
    kernel = emulated_symbol(library, name);
    *(void **)(void *)&launch = emulated_symbol(library, "emulated_launch");
    launch(kernel->run, params, BLOCKS, CASE_THREADS, 2, seed, NULL);
}

/* What a process says that runs the kernel, and whether it ends well. */
static bool ends_well(const struct hazard *h, uint64_t seed, char *said, size_t size)
{
    int ends[2], status = 0;
    ssize_t got;
    size_t length = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        run(h, seed);
        _exit(0);
    }
    close(ends[1]);
    while (length < size - 1 && (got = read(ends[0], said + length, size - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void is_found_in_any_order(void **state)
{
    const struct hazard *h = *state;
    char said[1000];

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const bool well = ends_well(h, seed, said, sizeof said);
        if (well != !h->found || (h->found && !strstr(said, h->found)))
            fail_msg("%s, order %d: %s", h->kernel, (int)seed, well ? "nothing found" : said);
    }
}

int main(void)
{
    enum { CASES = sizeof hazards / sizeof hazards[0] };
    struct CMUnitTest tests[CASES];

    library = dlopen(beside_me("hazard_cases.so"), RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < CASES; i++)
        tests[i] = (struct CMUnitTest){.name = hazards[i].kernel,
                                       .test_func = is_found_in_any_order,
                                       .initial_state = (void *)(uintptr_t)&hazards[i]};
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    return library ? _cmocka_run_group_tests("gpu_hazards", tests, CASES, NULL, NULL) : 1;
}
