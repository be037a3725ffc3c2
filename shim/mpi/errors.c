/* Creates the error class and codes of this library. */
#include "shim/mpi/errors.h"

#include <stdio.h>

#include "shim/mpi/real.h"

/* Returns the code of a status of core. All codes share one class; class and codes are created when
 * first needed. */
static int error_code(int status, const char *text)
{
    int slot = -status;
    int code = 0;

    if (slot < 0 ||
        slot >= (int)(sizeof shim.library.error_codes / sizeof *shim.library.error_codes))
        slot = 0;
    pthread_mutex_lock(&shim.process.start_lock);
    if (shim.library.error_class == 0 &&
        shim_real.Add_error_class(&shim.library.error_class) == MPI_SUCCESS)
        shim_real.Add_error_string(shim.library.error_class, "error of libsparseshim");
    if (shim.library.error_class != 0 && shim.library.error_codes[slot] == 0 &&
        shim_real.Add_error_code(shim.library.error_class, &shim.library.error_codes[slot]) !=
            MPI_SUCCESS)
        shim.library.error_codes[slot] = 0;
    code = shim.library.error_codes[slot];
    if (code != 0)
        shim_real.Add_error_string(code, text);
    pthread_mutex_unlock(&shim.process.start_lock);
    return code != 0 ? code : MPI_ERR_OTHER;
}

int shim_raise(MPI_Comm comm, int status, const char *text)
{
    char string[MPI_MAX_ERROR_STRING];
    int code;

    snprintf(string, (size_t)shim_abi.MAX_ERROR_STRING, "libsparseshim: %s", text);
    code = error_code(status, string);
    shim_real.Comm_call_errhandler(comm, code);
    return code;
}
