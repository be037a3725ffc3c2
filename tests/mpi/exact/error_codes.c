/* error_codes [fatal CASE|uninitialized|finalized]: erroneous calls, one line each: error class,
 * whether an error handler was called and on which communicator. The output is compared with that
 * under the bare MPI library. Calls that end the program under MPICH 4.0.2 (cases 0 to 3) or 5.0.2
 * (also 4 to 6) are made one by one with "fatal". */
#include "tests/mpi/support/input.h"

#include <stdio.h>

enum { COUNT = 4096 };

static float in[COUNT], out[COUNT];
static int handled_world, handled_other;

static void count_world(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    handled_world += *comm == MPI_COMM_WORLD;
    handled_other += *comm != MPI_COMM_WORLD;
}

static void count_other(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    handled_other++;
}

static void report(const char *what, const char *how, int code)
{
    int rank, class;
    char text[MPI_MAX_ERROR_STRING];
    int length;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Error_class(code, &class);
    MPI_Error_string(class, text, &length);
    if (rank == 0)
        printf("%s, %s: class %d (%s), handler of the world %d, of others %d\n", what, how, class,
               text, handled_world, handled_other);
    handled_world = handled_other = 0;
}

static MPI_Comm freed_communicator(void)
{
    MPI_Comm comm, stale;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm);
    stale = comm;
    MPI_Comm_free(&comm);
    return stale;
}

static MPI_Datatype uncommitted_type(void)
{
    static MPI_Datatype type = MPI_DATATYPE_NULL;
    if (type == MPI_DATATYPE_NULL)
        MPI_Type_contiguous(3, MPI_FLOAT, &type);
    return type;
}

static void erroneous_calls(const char *how)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Comm stale = freed_communicator();

#define TRY(what, ...) report(what, how, MPI_Allreduce(__VA_ARGS__))
    TRY("correct", in, out, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("send buffer NULL", NULL, out, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("receive buffer NULL", in, NULL, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("both buffers NULL", NULL, NULL, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("both buffers NULL, count 0", NULL, NULL, 0, MPI_FLOAT, MPI_SUM, world);
    TRY("uncommitted type", in, out, COUNT / 3, uncommitted_type(), MPI_SUM, world);
    TRY("MPI_OP_NULL", in, out, COUNT, MPI_FLOAT, MPI_OP_NULL, world);
    TRY("BAND on floats", in, out, COUNT, MPI_FLOAT, MPI_BAND, world);
    TRY("BOR on floats", in, out, COUNT, MPI_FLOAT, MPI_BOR, world);
    TRY("MAXLOC on floats", in, out, COUNT, MPI_FLOAT, MPI_MAXLOC, world);
    TRY("MPI_REPLACE", in, out, COUNT, MPI_FLOAT, MPI_REPLACE, world);
    TRY("MPI_COMM_NULL", in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL);
    TRY("freed communicator", in, out, COUNT, MPI_FLOAT, MPI_SUM, stale);
    TRY("communicator that is no handle", in, out, COUNT, MPI_FLOAT, MPI_SUM, (MPI_Comm)0x12345678);
    TRY("IN_PLACE as receive buffer", in, MPI_IN_PLACE, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("IN_PLACE as both buffers", MPI_IN_PLACE, MPI_IN_PLACE, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("aliased buffers", in, in, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("IN_PLACE, receive buffer NULL", MPI_IN_PLACE, NULL, COUNT, MPI_FLOAT, MPI_SUM, world);
    TRY("correct afterwards", in, out, COUNT, MPI_FLOAT, MPI_SUM, world);
#undef TRY
#if MPI_VERSION >= 4
    report("aliased buffers of MPI_Allreduce_c", how,
           MPI_Allreduce_c(in, in, COUNT, MPI_FLOAT, MPI_SUM, world));
    report("MPI_COMM_NULL of MPI_Allreduce_c", how,
           MPI_Allreduce_c(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL));
#endif
}

static int fatal_call(int number)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    switch (number) {
    case 0:
        return MPI_Allreduce(in, out, -1, MPI_FLOAT, MPI_SUM, world);
    case 1:
        return MPI_Allreduce(in, out, -2147483647 - 1, MPI_FLOAT, MPI_SUM, world);
    case 2:
        return MPI_Allreduce(in, out, COUNT / 2, MPI_DOUBLE, MPI_LOR, world);
    case 4:
        return MPI_Allreduce(in, out, COUNT, MPI_DATATYPE_NULL, MPI_SUM, world);
    case 5:
        return MPI_Allreduce(in, out, COUNT, (MPI_Datatype)0x12345678, MPI_SUM, world);
#if MPI_VERSION >= 4
    case 3:
        return MPI_Allreduce_c(in, out, -1, MPI_FLOAT, MPI_SUM, world);
    case 6:
        return MPI_Allreduce_c(in, out, COUNT, MPI_DATATYPE_NULL, MPI_SUM, world);
#endif
    default:
        return MPI_SUCCESS;
    }
}

int main(int argc, char **argv)
{
    MPI_Errhandler world_handler, other_handler;
    int rank, number;
    char *end;

    if (argc > 2 && strcmp(argv[2], "uninitialized") == 0)
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    input_fill_whole(in, COUNT, 3, rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (argc > 2) {
        for (int call = 0; call < 3; call++)
            MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        number = (int)strtol(argv[2], &end, 10);
        if (!*end)
            report("the fatal call returned", "errors return", fatal_call(number));
        MPI_Finalize();
        if (strcmp(argv[2], "finalized") == 0)
            MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return 0;
    }
    erroneous_calls("errors return");

    MPI_Comm_create_errhandler(count_world, &world_handler);
    MPI_Comm_create_errhandler(count_other, &other_handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, world_handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, other_handler);
    erroneous_calls("counting handlers");
    MPI_Errhandler_free(&world_handler);
    MPI_Errhandler_free(&other_handler);
    MPI_Finalize();
    return 0;
}
