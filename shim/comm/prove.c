/* Tests that the MPI library has the ABI that it was taken for: sizes of datatypes, and a message
 * of this rank to itself. */
#include <string.h>

#include "shim/comm/comm.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

enum { TAG = 7, BYTES = 3, TRIES = 1 << 20 };

static bool has_size(MPI_Datatype type)
{
    int size = 0;

    return shim_real.Type_size(type, &size) == MPI_SUCCESS && size > 0 &&
           (size_t)size == shim_handle_size((uintptr_t)type);
}

/* Returns true if a status describes the message. */
static bool describes(const char *status)
{
    int bytes = 0;

    return shim_abi_member(status, shim_abi.source) == 0 &&
           shim_abi_member(status, shim_abi.tag) == TAG &&
           shim_real.Get_count((const MPI_Status *)status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
           bytes == BYTES;
}

/* Ends a send and a receive, in this order. Returns true if the status of the receive is right. */
static bool end_both(MPI_Request *requests)
{
    uint64_t statuses[2][4] = {{0}}; /* no ABI has a larger MPI_Status */
    int indices[2], done = 0, ended = 0;
    bool right = false;

    for (int i = 0; i < TRIES && ended < 2; i++) {
        if (shim_real.Testsome(2, requests, &done, indices, (MPI_Status *)statuses) !=
                MPI_SUCCESS ||
            done < 0 || done > 2)
            return false;
        for (int j = 0; j < done; j++)
            if (indices[j] == 1)
                right = describes((char *)statuses + (size_t)j * shim_abi.status);
        ended += done;
    }
    return ended == 2 && right;
}

/* Returns true if a message on a communicator of this rank alone arrives. */
static bool carries(MPI_Comm alone)
{
    static const char sent[BYTES] = "abc";
    uintptr_t requests[2] = {0};
    void *first = requests, *second = (char *)requests + shim_abi.handle;
    char got[BYTES + 1] = "";

    return shim_real.Isend(sent, BYTES, MPI_BYTE, 0, TAG, alone, first) == MPI_SUCCESS &&
           shim_real.Irecv(got, sizeof got, MPI_BYTE, 0, TAG, alone, second) == MPI_SUCCESS &&
           end_both(first) && shim_abi_load(first) == (uintptr_t)MPI_REQUEST_NULL &&
           shim_abi_load(second) == (uintptr_t)MPI_REQUEST_NULL && memcmp(got, sent, BYTES) == 0;
}

/* Asks Open MPI for the size of every datatype in the table: Fortran's depend on the compiler. A
 * type that the library lacks has none. */
static void ask_sizes(void)
{
    for (size_t i = 0; i < SHIM_KNOWN; i++) {
        struct shim_known_slot *slot = &shim_known[i];
        int size = 0;

        if (slot->address == 0 || slot->what > SHIM_IS_TYPE)
            continue;
        if (shim_real.Type_size((MPI_Datatype)slot->address, &size) != MPI_SUCCESS || size <= 0 ||
            size > SHIM_IS_TYPE)
            slot->what = SHIM_IS_NULL;
        else
            slot->what = (uint8_t)size;
    }
}

static bool prove(MPI_Comm alone)
{
    const bool sized =
        has_size(MPI_BYTE) && has_size(MPI_INT) && has_size(MPI_DOUBLE) && has_size(MPI_UINT64_T);

    if (sized && shim_abi.kind == SHIM_ABI_OPEN_MPI)
        ask_sizes();
    return sized && (alone == MPI_COMM_NULL || carries(alone));
}

/* A Sessions-only program has no communicator for the message. */
bool shim_comm_proves_abi(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static enum { UNKNOWN, HOLDS, FAILS } proof = UNKNOWN;
    bool holds;

    if (shim_abi.kind == SHIM_ABI_MPICH)
        return true;
    pthread_mutex_lock(&lock);
    if (proof == UNKNOWN) {
        MPI_Comm alone = shim.process.sessions ? MPI_COMM_NULL : shim_comm_make_probe();

        if (shim.process.sessions || alone != MPI_COMM_NULL)
            proof = prove(alone) ? HOLDS : FAILS;
        if (proof == FAILS)
            shim_say(CFG_DEBUG_WARN,
                     "the MPI library does not work as its binary interface says, so that calls "
                     "pass through: %s",
                     shim.library.text);
        if (alone != MPI_COMM_NULL)
            shim_real.Comm_free(&alone);
    }
    holds = proof == HOLDS;
    pthread_mutex_unlock(&lock);
    return holds;
}
