/* Every kernel, compiled for the host: bit for bit what core's plain functions give, whatever the
 * sizes, the addresses, the numbers and the order in which threads and blocks run. Half of the
 * cases, but with GPU_FULL or watched kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/gpu/checks.h"

static struct emulated machine;

static void equals_the_host(void **state)
{
    const struct check *check = *state;
    const bool full = getenv("GPU_FULL") || getenv("TEST_CUDA_KERNELS");
    const char *text = run_check(check, &machine, full ? 0 : check->cases / 2);

    if (text)
        fail_msg("%s: %s", check->name, text);
    assert_true(machine.launches > 0);
}

int main(void)
{
    struct CMUnitTest tests[CHECKS];

    emulated_open(&machine, emulated_kernels());
    for (int i = 0; i < CHECKS; i++)
        tests[i] = (struct CMUnitTest){.name = checks[i].name,
                                       .test_func = equals_the_host,
                                       .initial_state = (void *)(uintptr_t)&checks[i]};
    return _cmocka_run_group_tests("gpu_kernels", tests, CHECKS, NULL, NULL);
}
