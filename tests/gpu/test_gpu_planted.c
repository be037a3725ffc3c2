/* The tests of the kernels find faults: of each kernel with one planted (tests/gpu/plant) some
 * result differs, or it crashes, or it does not end. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/gpu/checks.h"

enum { FAULTS_MOST = 100, SECONDS = 20 };

/* Runs the check that the name begins with; 0 where nothing is found. */
static int look_for(const char *name)
{
    static struct emulated machine;
    const struct rlimit processor = {SECONDS, SECONDS}, core = {0, 0};
    char library[300];
    const size_t length = strcspn(name, ".");

    (void)setrlimit(RLIMIT_CPU, &processor);
    (void)setrlimit(RLIMIT_CORE, &core);
    (void)snprintf(library, sizeof library, "planted/%s.so", name);
    emulated_open(&machine, library);
    for (int i = 0; i < CHECKS; i++)
        if (strlen(checks[i].name) == length && strncmp(checks[i].name, name, length) == 0)
            return run_check(&checks[i], &machine, 0) != NULL;
    return 0; /* no such check finds nothing */
}

static bool is_found(const char *name)
{
    int status = 0;
    pid_t child = fork();

    assert_int_not_equal(child, -1);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        (void)dup2(nowhere, STDERR_FILENO);
        for (int signal = 1; signal < 32; signal++)
            (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        _exit(look_for(name));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void a_planted_fault_is_found(void **state)
{
    if (!is_found(*state))
        fail_msg("nothing found %s", (const char *)*state);
}

int main(void)
{
    static struct CMUnitTest tests[FAULTS_MOST];
    size_t count = 0;
    DIR *planted = opendir(beside_me("planted"));
    const struct dirent *entry;

    while (planted && (entry = readdir(planted))) {
        char *name = strdup(entry->d_name), *end = strstr(name, ".so");
        if (!end || count == FAULTS_MOST) {
            free(name);
            continue;
        }
        *end = 0;
        tests[count++] = (struct CMUnitTest){
            .name = name, .test_func = a_planted_fault_is_found, .initial_state = name};
    }
    if (count == 0) {
        fprintf(stderr, "no planted faults: %s\n", beside_me("planted"));
        return 1;
    }
    return _cmocka_run_group_tests("gpu_planted", tests, count, NULL, NULL);
}
