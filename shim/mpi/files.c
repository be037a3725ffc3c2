/* Opens files for appending and replaces whole files, with checks. */
#include "shim/mpi/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_FREE = 3, ATTEMPTS = 100 };

static void give(char reason[SHIM_REASON], const char *text)
{
    snprintf(reason, SHIM_REASON, "%s", text);
}

static void give_error(char reason[SHIM_REASON], int error)
{
    char buffer[SHIM_REASON];

    give(reason, strerror_r(error, buffer, sizeof buffer));
}

/* ---- appending ---- */

/* Returns the descriptor of this process that a path names; -1 if it names none. Such a path is
 * duplicated, not opened: it is a link, and may lead to a pipe or a socket. */
static int named_descriptor(const char *path)
{
    static const char *const directories[] = {"/dev/fd/", "/proc/self/fd/"};
    char *end;

    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        size_t n = strlen(directories[i]);

        if (strncmp(path, directories[i], n) != 0 || path[n] < '0' || path[n] > '9')
            continue;
        unsigned long fd = strtoul(path + n, &end, 10);
        if (*end == '\0' && fd <= INT32_MAX)
            return (int)fd;
    }
    return -1;
}

static const char not_served[] = "it is neither a regular file nor a character device";

/* Returns the reason not to append to an existing file, or NULL. A second name may be one that
 * another user has given to a file of this user. */
static const char *objection(const struct stat *st)
{
    if (S_ISCHR(st->st_mode))
        return NULL;
    if (!S_ISREG(st->st_mode))
        return not_served;
    if (st->st_uid != geteuid())
        return "it belongs to another user";
    return st->st_nlink > 1 ? "it has a second name (a hard link)" : NULL;
}

/* Opens an existing file without waiting for the reader of a pipe or for a terminal line. */
static int open_former(const char *path, char reason[SHIM_REASON])
{
    int fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const char *why = NULL;
    struct stat st;

    if (fd < 0 && errno == ELOOP)
        give(reason, "it is a link");
    else if (fd < 0 && errno == ENXIO) /* a pipe without a reader, or a socket */
        give(reason, not_served);
    else if (fd < 0 || fstat(fd, &st) != 0)
        give_error(reason, errno);
    else if ((why = objection(&st)))
        give(reason, why);
    else if (fcntl(fd, F_SETFL, O_APPEND) == 0)
        return fd;
    else
        give_error(reason, errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Moves a descriptor above 2, since programs reopen the standard descriptors by closing them. */
static int moved_up(int fd, bool keep)
{
    int moved = fd;

    if (fd >= 0 && (fd < FIRST_FREE || keep)) {
        moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
        if (!keep)
            close(fd);
    }
    return moved;
}

int shim_file_append(const char *path, char reason[SHIM_REASON])
{
    int fd = named_descriptor(path);

    if (fd >= 0) {
        fd = moved_up(fd, true);
    } else {
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST) {
            fd = open_former(path, reason);
            if (fd < 0)
                return -1;
        }
        fd = moved_up(fd, false);
    }
    if (fd < 0)
        give_error(reason, errno);
    return fd;
}

/* ---- replacing ---- */

static int open_directory(const char *path, char reason[SHIM_REASON])
{
    int made = mkdir(path, 0700) == 0 ? 0 : errno;
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        give_error(reason, errno == ENOENT && made != 0 && made != EEXIST ? made : errno);
    return fd;
}

/* Creates a file with a random name. A user who guesses the name can only force another one. */
static int open_new(int directory, const char *name, char *temporary, size_t size)
{
    struct timespec now;
    uint32_t number;
    int fd = -1;

    clock_gettime(CLOCK_MONOTONIC, &now);
    number = (uint32_t)now.tv_nsec;
    for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
            number += 2654435761u * (uint32_t)getpid();
        snprintf(temporary, size, "%s.%08x.tmp", name, (unsigned)number);
        fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* Returns true if the existing file may be replaced; the new file gets its mode. Its owner is
 * compared with that of the new file, since a file server may assign new files to another user. */
static bool may_replace(int directory, const char *name, int fd, char reason[SHIM_REASON])
{
    struct stat former, new;

    if (fstatat(directory, name, &former, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT)
            return true;
        give_error(reason, errno);
        return false;
    }
    if (S_ISLNK(former.st_mode))
        give(reason, "it is a link");
    else if (!S_ISREG(former.st_mode))
        give(reason, "it is not a regular file");
    else if (fstat(fd, &new) != 0)
        give_error(reason, errno);
    else if (former.st_uid != new.st_uid)
        give(reason, "it belongs to another user");
    else if (fchmod(fd, former.st_mode & 0777) != 0)
        give_error(reason, errno);
    else
        return true;
    return false;
}

static bool fill_and_rename(int directory, const char *name, const char *temporary, int fd,
                            shim_file_fill *fill, void *ctx, char reason[SHIM_REASON])
{
    bool may = may_replace(directory, name, fd, reason);
    int error = may ? fill(ctx, fd) : 0;

    if (close(fd) != 0 && error == 0)
        error = errno;
    if (may && error == 0 && renameat(directory, temporary, directory, name) != 0)
        error = errno;
    if (error != 0)
        give_error(reason, error);
    return may && error == 0;
}

bool shim_file_replace(const char *directory, const char *name, shim_file_fill *fill, void *ctx,
                       char reason[SHIM_REASON], bool *in_directory)
{
    char temporary[1024];
    int at = open_directory(directory, reason);
    bool done = false;
    int fd;

    *in_directory = at < 0;
    if (at < 0)
        return false;
    fd = open_new(at, name, temporary, sizeof temporary);
    if (fd < 0) {
        give_error(reason, errno);
        *in_directory = errno != ENAMETOOLONG;
    } else {
        done = fill_and_rename(at, name, temporary, fd, fill, ctx, reason);
        if (!done)
            unlinkat(at, temporary, 0);
    }
    close(at);
    return done;
}
