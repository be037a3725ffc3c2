#define _GNU_SOURCE 1
#include "shim/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fpenv.h"

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

long shim_environment_number(const char *name, long otherwise)
{
    const char *text = secure_getenv(name);
    char *end;
    long value;

    if (!text || !*text)
        return otherwise;
    value = strtol(text, &end, 10);
    return end == text ? otherwise : value;
}

int shim_launcher_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID", "MPI_RANKID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long rank = shim_environment_number(names[i], -1);

        if (rank >= 0 && rank <= INT32_MAX)
            return (int)rank;
    }
    return -1;
}

static void job_name(char *out, size_t size)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID",
                                        "JOB_ID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = secure_getenv(names[i]);

        if (text && *text) {
            snprintf(out, size, "%s", text);
            return;
        }
    }
    snprintf(out, size, "%ld", (long)getppid());
}

static void replacement(char letter, char *out, size_t size)
{
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
        snprintf(out, size, "%d", shim.rank < 0 ? 0 : shim.rank);
        break;
    case 'j':
        job_name(out, size);
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

static int log_fd(void)
{
    const char *pattern = shim.options.debug_file;
    char path[4096];
    int fd;

    pthread_mutex_lock(&shim.log_lock);
    if (shim.log_fd < 0) {
        shim.log_fd = STDERR_FILENO;
        if (pattern && *pattern && strcmp(pattern, "stderr") != 0 &&
            shim_expand(path, sizeof path, pattern)) {
            fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
            if (fd >= 0)
                shim.log_fd = fd;
        }
    }
    fd = shim.log_fd;
    pthread_mutex_unlock(&shim.log_lock);
    return fd;
}

void shim_say(enum cfg_debug level, const char *format, ...)
{
    struct ss_fpenv_full environment;
    int saved = errno;
    char line[1024];
    size_t used;
    va_list ap;
    int len;

    if (shim.options.debug < level || level == CFG_DEBUG_NONE)
        return;
    len = shim.rank < 0 ? snprintf(line, sizeof line, "sparseshim: ")
                        : snprintf(line, sizeof line, "sparseshim[%d]: ", shim.rank);
    used = (size_t)len;
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
    line[used++] = '\n';
    shim_write(log_fd(), line, used);
    errno = saved;
}

void shim_log_close(void)
{
    pthread_mutex_lock(&shim.log_lock);
    if (shim.log_fd > STDERR_FILENO)
        close(shim.log_fd);
    shim.log_fd = -1;
    pthread_mutex_unlock(&shim.log_lock);
}
