/* Preloaded: an MPI library that says it takes CUDA's memory as Open MPI and MVAPICH do; not where
 * CUDA_QUERY=0. */
#include <stdlib.h>

int MPIX_Query_cuda_support(void);

int MPIX_Query_cuda_support(void)
{
    const char *text = getenv("CUDA_QUERY");

    return text == NULL || atoi(text) != 0;
}
