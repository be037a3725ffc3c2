#include "shim/cli/try_folder.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/cli/cli.h"
#include "shim/cli/watched_job.h"

enum { OPEN_FOLDERS = 32, BLOCK = 512 };

#define OTHERS "--cwd=FOLDER names another folder, --here starts the jobs in the folder itself"

/* ---- walks ---- */

static uint64_t measured;

static int measure(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)path;
    (void)kind;
    (void)at;
    measured += (uint64_t)s->st_blocks * BLOCK;
    return 0;
}

/* A folder that was read-only in the source is so in the copy. */
static int make_writable(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)at;
    if (kind == FTW_D && (s->st_mode & S_IRWXU) != S_IRWXU)
        (void)chmod(path, S_IRWXU);
    return 0;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

/* Follows no link, leaves the file system of the path nowhere. */
static void remove_tree(const char *path)
{
    nftw(path, make_writable, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT);
    if (nftw(path, remove_one, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT | FTW_DEPTH) != 0)
        fprintf(stderr, "sparseshim try: %s cannot be removed: %s\n", path, strerror(errno));
}

/* ---- opening ---- */

static int fits(const struct trial_folder *f, uint64_t most)
{
    struct statvfs beside;
    const double gib = 1024.0 * 1024 * 1024;

    measured = 0;
    if (nftw(f->source, measure, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT) != 0) {
        fprintf(stderr, "sparseshim try: %s cannot be read: %s\n", f->source, strerror(errno));
        return CLI_CANNOT_RUN;
    }
    double size = (double)measured;
    if (measured > most)
        return cli_usage_error("try",
                               "%s holds %.3g GiB, more than the --copy-limit of %.3g GiB; " OTHERS,
                               f->source, size / gib, (double)most / gib);
    if (statvfs(f->base, &beside) == 0 &&
        size > 0.9 * (double)beside.f_bavail * (double)beside.f_frsize)
        return cli_usage_error("try", "%s holds %.3g GiB, and there is no room for a copy; " OTHERS,
                               f->source, size / gib);
    return CLI_OK;
}

int trial_folder_open(struct trial_folder *f, const char *cwd, bool here, uint64_t most)
{
    f->here = here;
    f->base[0] = '\0';
    if (realpath(cwd != NULL ? cwd : ".", f->source) == NULL)
        return cli_usage_error("try", "--cwd=%s: %s", cwd != NULL ? cwd : ".", strerror(errno));
    if (!here && strcmp(f->source, "/") == 0)
        return cli_usage_error("try", "/ cannot be copied; " OTHERS);
    int n = snprintf(f->base, sizeof f->base,
                     here ? "%s/sparseshim-try-XXXXXX" : "%s.sparseshim-try-XXXXXX", f->source);
    if (n < 0 || (size_t)n >= sizeof f->base) {
        f->base[0] = '\0';
        return cli_usage_error("try", "%s is too long a path", f->source);
    }
    if (mkdtemp(f->base) == NULL) {
        n = errno;
        f->base[0] = '\0';
        return cli_usage_error("try", "nothing can be written %s %s: %s; " OTHERS,
                               here ? "in" : "beside", f->source, strerror(n));
    }
    return here ? CLI_OK : fits(f, most);
}

/* ---- copies ---- */

/* Links stay links; where the file system can, the copies share their blocks. A signal ends it. */
static int copy(const char *source, const char *path)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    char from[PATH_MAX + 2];
    int status = 0;
    pid_t ended = 0;

    snprintf(from, sizeof from, "%s/.", source);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("cp", "cp", "-a", "--reflink=auto", "--", from, path, (char *)NULL);
        _exit(CLI_NOT_FOUND);
    }
    while (pid > 0 && (ended = waitpid(pid, &status, WNOHANG)) == 0) {
        if (cli_interrupted())
            kill(pid, SIGTERM);
        nanosleep(&nap, NULL);
    }
    return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int trial_folder_copy(const struct trial_folder *f, const char *name, char path[PATH_MAX])
{
    if (f->here) {
        memcpy(path, f->source, sizeof f->source);
        return CLI_OK;
    }
    snprintf(path, PATH_MAX, "%s.%s", f->base, name);
    if (mkdir(path, S_IRWXU) != 0 || copy(f->source, path) != 0) {
        if (cli_interrupted())
            return CLI_FAILED;
        fprintf(stderr, "sparseshim try: %s cannot be copied to %s; " OTHERS "\n", f->source, path);
        return CLI_CANNOT_RUN;
    }
    return CLI_OK;
}

void trial_folder_remove(const struct trial_folder *f, const char *path)
{
    if (!f->here)
        remove_tree(path);
}

void trial_folder_close(const struct trial_folder *f)
{
    if (f->base[0] != '\0')
        remove_tree(f->base);
}
