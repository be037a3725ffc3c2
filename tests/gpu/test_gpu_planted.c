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

enum { FAULTS_MOST = 100, SECONDS = 6 };

static struct emulated machine;

static const struct check *check_of(const char *name)
{
    const size_t length = strcspn(name, ".");

    for (int i = 0; i < CHECKS; i++)
        if (strlen(checks[i].name) == length && strncmp(checks[i].name, name, length) == 0)
            return &checks[i];
    fail_msg("%s: no such check", name);
    return NULL;
}

/* In a process of its own, which it may end; 0 where nothing is found. */
static int look_for(const struct check *check)
{
    const struct rlimit processor = {SECONDS, SECONDS}, core = {0, 0};
    int nowhere = open("/dev/null", O_WRONLY);

    (void)dup2(nowhere, STDERR_FILENO);
    (void)setrlimit(RLIMIT_CPU, &processor);
    (void)setrlimit(RLIMIT_CORE, &core);
    for (int signal = 1; signal < 32; signal++)
        (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    return run_check(check, &machine, 0) != NULL;
}

static bool is_found(const char *name)
{
    const struct check *check = check_of(name);
    char library[300];
    int status = 0;

    (void)snprintf(library, sizeof library, "planted/%s.so", name);
    emulated_open(
        &machine,
        beside_me(library)); /* in this process: a library that is not there is no fault */
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0)
        _exit(look_for(check));
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
    if (planted)
        closedir(planted);
    if (count == 0) {
        fprintf(stderr, "no planted faults: %s\n", beside_me("planted"));
        return 1;
    }
    return _cmocka_run_group_tests("gpu_planted", tests, count, NULL, NULL);
}
