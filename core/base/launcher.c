#include "core/base/launcher.h"

#include <stdint.h>
#include <stdlib.h>

long ss_environment_number(const char *name, long otherwise)
{
    const char *text = secure_getenv(name);
    char *end;
    long value;

    if (!text || !*text)
        return otherwise;
    value = strtol(text, &end, 10);
    return end == text ? otherwise : value;
}

/* Returns the first number in the variables `names`; -1 if none holds a number. */
static int first_of(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        long rank = ss_environment_number(names[i], -1);

        if (rank >= 0 && rank <= INT32_MAX)
            return (int)rank;
    }
    return -1;
}

int ss_launcher_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "SLURM_PROCID", "MPI_RANKID"};

    return first_of(names, sizeof names / sizeof *names);
}

int ss_launcher_local_rank(void)
{
    static const char *const names[] = {"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
                                        "SLURM_LOCALID"};

    return first_of(names, sizeof names / sizeof *names);
}

const char *ss_launcher_advice(void)
{
    return ss_environment_number("OMPI_COMM_WORLD_SIZE", 0) > 0
               ? "; Open MPI's mpirun hands a variable to other hosts by -x NAME"
               : "";
}
