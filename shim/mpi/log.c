/* Writes lines of the DEBUG channel, and expands the patterns of file names. */
#include "shim/mpi/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/fpenv.h"
#include "core/base/launcher.h"
#include "shim/mpi/files.h"

int shim_write(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, text, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return errno;
        text += done;
        len -= (size_t)done;
    }
    return 0;
}

/* Writes the first variable that is set and not empty, as one part of a path; `otherwise` if there
 * is none. */
static void name_from(const char *const *names, size_t n, long otherwise, char *out, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = secure_getenv(names[i]);

        if (text && *text) {
            snprintf(out, size, "%s", text);
            for (char *c = out; *c; c++)
                *c = *c == '/' ? '_' : *c; /* no separator within a part of a path */
            return;
        }
    }
    snprintf(out, size, "%ld", otherwise);
}

static void job_name(char *out, size_t size)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
                                        "FLUX_JOB_ID",  "JOB_ID",    "PMIX_NAMESPACE"};

    name_from(names, sizeof names / sizeof *names, (long)getppid(), out, size);
}

/* Names the user by the environment, since the user database may load modules into the program. */
static void user_name(char *out, size_t size)
{
    static const char *const names[] = {"USER", "LOGNAME"};

    name_from(names, sizeof names / sizeof *names, (long)getuid(), out, size);
}

static void replacement(char letter, char *out, size_t size)
{
    int rank = shim.process.rank;

    switch (letter) {
    case 'h':
        if (gethostname(out, size) != 0)
            snprintf(out, size, "host");
        out[size - 1] = '\0';
        break;
    case 'p':
        snprintf(out, size, "%ld", (long)getpid());
        break;
    case 'r':
        if (rank < 0) /* not known yet */
            rank = ss_launcher_rank();
        snprintf(out, size, "%d", rank < 0 ? 0 : rank);
        break;
    case 'j':
        job_name(out, size);
        break;
    case 'u':
        user_name(out, size);
        break;
    case '%':
        snprintf(out, size, "%%");
        break;
    default:
        snprintf(out, size, "%%%c", letter);
    }
}

bool shim_expand(char *out, size_t size, const char *pattern)
{
    size_t used = 0;

    for (; *pattern; pattern++) {
        char part[256] = {pattern[0], '\0'};
        size_t len;

        if (pattern[0] == '%' && pattern[1])
            replacement(*++pattern, part, sizeof part);
        len = strlen(part);
        if (len >= size - used)
            return false;
        memcpy(out + used, part, len);
        used += len;
    }
    out[used] = '\0';
    return true;
}

/* Replaces control characters: texts of other libraries, such as that of MPI_Get_library_version,
 * may hold tabs and terminal commands. */
static void blank_controls(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
            text[i] = ' ';
}

/* Writes the beginning of a line. Returns its length. */
static size_t begin_line(char *line, size_t size)
{
    int len = shim.process.rank < 0 ? snprintf(line, size, "sparseshim: ")
                                    : snprintf(line, size, "sparseshim[%d]: ", shim.process.rank);

    return (size_t)len;
}

/* Writes to stderr that DEBUG_FILE cannot be written. */
static void tell_lost(const char *path, const char *reason)
{
    char line[4096 + 256];
    size_t used = begin_line(line, sizeof line);

    snprintf(line + used, sizeof line - used, "SPARSESHIM_DEBUG_FILE: %s cannot be written: %s",
             path, reason);
    used = strlen(line);
    blank_controls(line, used);
    line[used] = '\n';
    shim_write(STDERR_FILENO, line, used + 1);
}

static int open_log(void)
{
    const char *pattern = shim.options.debug_file;
    char path[4096], reason[SHIM_REASON] = "the path is too long";
    int fd = -1;

    if (!pattern || !*pattern || strcmp(pattern, "stderr") == 0)
        return STDERR_FILENO;
    if (shim_expand(path, sizeof path, pattern))
        fd = shim_file_append(path, reason);
    else
        snprintf(path, sizeof path, "%s", pattern);
    if (fd < 0)
        tell_lost(path, reason);
    return fd < 0 ? STDERR_FILENO : fd;
}

static int log_fd(void)
{
    int fd;

    pthread_mutex_lock(&shim.log.lock);
    if (shim.log.fd < 0)
        shim.log.fd = open_log();
    fd = shim.log.fd;
    pthread_mutex_unlock(&shim.log.lock);
    return fd;
}

/* Redirects the log to stderr, together with a line that could not be written. The old descriptor
 * stays open, since another thread may be writing to it. */
static void leave_log(int fd, int error, const char *line, size_t len)
{
    char path[4096], buffer[SHIM_REASON];

    pthread_mutex_lock(&shim.log.lock);
    if (shim.log.fd == fd) {
        shim.log.fd = STDERR_FILENO;
        if (!shim_expand(path, sizeof path, shim.options.debug_file))
            path[0] = '\0';
        tell_lost(path, strerror_r(error, buffer, sizeof buffer));
    }
    pthread_mutex_unlock(&shim.log.lock);
    shim_write(STDERR_FILENO, line, len);
}

void shim_say(enum cfg_debug level, const char *format, ...)
{
    struct ss_fpenv_full environment;
    int saved = errno;
    char line[1024];
    size_t used;
    va_list ap;
    int len, fd, error;

    if (shim.options.debug < level || level == CFG_DEBUG_NONE)
        return;
    used = begin_line(line, sizeof line);
    va_start(ap, format);
    ss_fpenv_enter_full(&environment);
    len = vsnprintf(line + used, sizeof line - used, format, ap);
    ss_fpenv_leave_full(&environment);
    va_end(ap);
    if (len < 0)
        return;
    used += (size_t)len;
    if (used > sizeof line - 1)
        used = sizeof line - 1;
    blank_controls(line, used);
    line[used++] = '\n';
    fd = log_fd();
    error = shim_write(fd, line, used);
    if (error != 0 && fd != STDERR_FILENO)
        leave_log(fd, error, line, used);
    errno = saved;
}

void shim_log_close(void)
{
    pthread_mutex_lock(&shim.log.lock);
    if (shim.log.fd > STDERR_FILENO)
        close(shim.log.fd);
    shim.log.fd = -1;
    pthread_mutex_unlock(&shim.log.lock);
}
