/* nb_complete: a nonblocking allreduce that is taken over completes under every completion call as
 * one that is not: same statuses, same codes of MPI_Cancel and MPI_Request_free. Each check makes a
 * call of SMALL elements, below SPARSESHIM_MIN_COUNT=1000, and one of LARGE elements, above.
 */
#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { SMALL = 8, LARGE = 5000, LIMIT = 60, UNTOUCHED = 0x5a5a5a };

/* The contents of a status. In the status of a collective, MPICH leaves source, tag and count of
 * the message that used the request before (seen with 4.0.2), and MPI does not define them. They
 * are printed if another field differs, but not compared. */
struct facts {
    int source, tag, error, cancelled;
    int count, elements, bytes; /* of MPI_FLOAT, MPI_FLOAT, MPI_BYTE */
};

struct outcome {
    int code; /* error class of the completion call */
    int flag, index, number;
    struct facts facts;
    bool null; /* the request is MPI_REQUEST_NULL */
};

typedef void completion(MPI_Request *request, struct outcome *out);

static MPI_Status untouched(void)
{
    MPI_Status status;

    memset(&status, 0, sizeof status);
    status.MPI_SOURCE = UNTOUCHED;
    status.MPI_TAG = UNTOUCHED;
    status.MPI_ERROR = UNTOUCHED;
    return status;
}

static struct facts facts_of(MPI_Status *status)
{
    struct facts f = {
        .source = status->MPI_SOURCE, .tag = status->MPI_TAG, .error = status->MPI_ERROR};

    MPI_Test_cancelled(status, &f.cancelled);
    MPI_Get_count(status, MPI_FLOAT, &f.count);
    MPI_Get_elements(status, MPI_FLOAT, &f.elements);
    MPI_Get_count(status, MPI_BYTE, &f.bytes);
    return f;
}

static void record(struct outcome *out, int code, MPI_Status *status, MPI_Request request)
{
    MPI_Error_class(code, &out->code);
    out->facts = facts_of(status);
    out->null = request == MPI_REQUEST_NULL;
}

static void by_wait(MPI_Request *request, struct outcome *out)
{
    MPI_Status status = untouched();
    int code = MPI_Wait(request, &status);

    record(out, code, &status, *request);
}

static void by_waitall(MPI_Request *request, struct outcome *out)
{
    MPI_Request list[3] = {MPI_REQUEST_NULL, *request, MPI_REQUEST_NULL};
    MPI_Status status[3] = {untouched(), untouched(), untouched()};
    int code = MPI_Waitall(3, list, status);

    *request = list[1];
    record(out, code, &status[1], *request);
}

static void by_waitany(MPI_Request *request, struct outcome *out)
{
    MPI_Request list[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, *request};
    MPI_Status status = untouched();
    int code = MPI_Waitany(3, list, &out->index, &status);

    *request = list[2];
    record(out, code, &status, *request);
}

static void by_waitsome(MPI_Request *request, struct outcome *out)
{
    MPI_Request list[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status status[2] = {untouched(), untouched()};
    int code = MPI_Waitsome(2, list, &out->number, &out->index, status);

    *request = list[1];
    record(out, code, &status[0], *request);
}

static void by_test(MPI_Request *request, struct outcome *out)
{
    MPI_Status status;
    int code;

    do {
        status = untouched();
        code = MPI_Test(request, &out->flag, &status);
    } while (!out->flag && code == MPI_SUCCESS);
    record(out, code, &status, *request);
}

static void by_testall(MPI_Request *request, struct outcome *out)
{
    MPI_Request list[2] = {*request, MPI_REQUEST_NULL};
    MPI_Status status[2];
    int code;

    do {
        status[0] = status[1] = untouched();
        code = MPI_Testall(2, list, &out->flag, status);
    } while (!out->flag && code == MPI_SUCCESS);
    *request = list[0];
    record(out, code, &status[0], *request);
}

static void by_testany(MPI_Request *request, struct outcome *out)
{
    MPI_Request list[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status status;
    int code;

    do {
        status = untouched();
        code = MPI_Testany(2, list, &out->index, &out->flag, &status);
    } while (!out->flag && code == MPI_SUCCESS);
    *request = list[1];
    record(out, code, &status, *request);
}

static void by_testsome(MPI_Request *request, struct outcome *out)
{
    MPI_Request list[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status status[2];
    int code;

    do {
        status[0] = status[1] = untouched();
        code = MPI_Testsome(2, list, &out->number, &out->index, status);
    } while (out->number == 0 && code == MPI_SUCCESS);
    *request = list[1];
    record(out, code, &status[0], *request);
}

/* The status is that of MPI_Request_get_status; MPI_Wait must then find the request as it was. */
static void by_get_status(MPI_Request *request, struct outcome *out)
{
    MPI_Status status, again = untouched();
    struct facts first;
    int code;

    do {
        status = untouched();
        code = MPI_Request_get_status(*request, &out->flag, &status);
    } while (!out->flag && code == MPI_SUCCESS);
    first = facts_of(&status);
    out->number = *request != MPI_REQUEST_NULL;
    code = code != MPI_SUCCESS ? code : MPI_Wait(request, &again);
    record(out, code, &again, *request);
    out->facts = first;
}

static void by_wait_without_status(MPI_Request *request, struct outcome *out)
{
    MPI_Status status = untouched();
    int code = MPI_Wait(request, MPI_STATUS_IGNORE);

    record(out, code, &status, *request);
}

static void print_outcome(const char *what, const struct outcome *o)
{
    fprintf(stderr,
            "rank %d, %s: code %d, flag %d, index %d, number %d, null %d; source %d, tag %d, "
            "error %d, cancelled %d, count %d, elements %d, bytes %d\n",
            tap.rank, what, o->code, o->flag, o->index, o->number, o->null, o->facts.source,
            o->facts.tag, o->facts.error, o->facts.cancelled, o->facts.count, o->facts.elements,
            o->facts.bytes);
}

static bool same_outcome(const char *name, const struct outcome *small, const struct outcome *large)
{
    bool same = small->facts.error == large->facts.error &&
                small->facts.cancelled == large->facts.cancelled && small->code == large->code &&
                small->flag == large->flag && small->index == large->index &&
                small->number == large->number && small->null == large->null;

    if (!same) {
        fprintf(stderr, "%s:\n", name);
        print_outcome("passed through", small);
        print_outcome("taken over", large);
    }
    return same;
}

static void completes_as_native(const char *name, completion *complete)
{
    static uint64_t seed = 1;
    static const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT};
    bool right = true, same = true;

    nb_within(LIMIT, "%s", name);
    for (int turn = 0; turn < 6; turn++, seed++) {
        struct outcome outcome[2] = {{.flag = -1, .index = -1, .number = -1},
                                     {.flag = -1, .index = -1, .number = -1}};

        for (int large = 0; large < 2; large++) {
            struct nb_call call = nb_make(MPI_COMM_WORLD, types[turn % 3], large ? LARGE : SMALL,
                                          (enum nb_input)(turn % NB_INPUTS), turn % 2, seed);
            right = nb_post(&call, MPI_COMM_WORLD) == MPI_SUCCESS && right;
            complete(&call.request, &outcome[large]);
            right = nb_finish(&call, name) && right;
        }
        same = same_outcome(name, &outcome[0], &outcome[1]) && same;
        right = right && outcome[1].code == MPI_SUCCESS && outcome[1].null;
    }
    tap_ok(right, "%s: sums, and the request is gone", name);
    tap_ok(same, "%s: error, cancelled and flags as of a call that is passed through", name);
}

typedef int refusal(MPI_Request *request);

static int cancel(MPI_Request *request)
{
    return MPI_Cancel(request);
}

static int release(MPI_Request *request)
{
    return MPI_Request_free(request);
}

static void refused_as_native(const char *name, refusal *refuse)
{
    bool right = true, same = true;

    nb_within(LIMIT, "%s", name);
    for (int turn = 0; turn < 4; turn++) {
        int class[2] = {-1, -1};
        bool kept[2] = {false, false};

        for (int large = 0; large < 2; large++) {
            struct nb_call call =
                nb_make(MPI_COMM_WORLD, MPI_FLOAT, large ? LARGE : SMALL,
                        turn % 2 ? NB_DENSE : NB_SPARSE, false, (uint64_t)(700 + turn));
            nb_post(&call, MPI_COMM_WORLD);
            if (turn >= 2) /* once complete, but not known to be */
                nb_user_code(0.01);
            MPI_Error_class(refuse(&call.request), &class[large]);
            kept[large] = call.request != MPI_REQUEST_NULL;
            if (kept[large]) {
                MPI_Wait(&call.request, MPI_STATUS_IGNORE);
                right = nb_finish(&call, name) && right;
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (class[0] != class[1] || kept[0] != kept[1]) {
            fprintf(stderr, "%s: class %d, kept %d passed through; class %d, kept %d taken over\n",
                    name, class[0], kept[0], class[1], kept[1]);
            same = false;
        }
        if (turn == 0)
            tap_note("%s of a small call gives class %d and the request is %s", name, class[0],
                     kept[0] ? "kept" : "freed");
    }
    tap_ok(right, "%s: the request can be waited for afterwards", name);
    tap_ok(same, "%s: class of the error as native", name);
}

/* Any of several, until none is left. */
static void every_request_is_found_once(void)
{
    enum { CALLS = 10 };
    struct nb_call call[CALLS];
    MPI_Request list[CALLS];
    bool good = true;
    int found[CALLS] = {0}, index, left = CALLS;

    nb_within(LIMIT, "Waitany, Testsome and Waitsome until none is left");
    for (int i = 0; i < CALLS; i++) {
        call[i] = nb_make(MPI_COMM_WORLD, MPI_FLOAT, i % 3 ? LARGE + i : SMALL, i % NB_INPUTS,
                          i % 2, (uint64_t)(900 + i));
        nb_post(&call[i], MPI_COMM_WORLD);
        list[i] = call[i].request;
    }
    while (left > 0) {
        int number = 0, indices[CALLS];
        MPI_Status status[CALLS];

        if (left % 3 == 0) {
            MPI_Waitany(CALLS, list, &indices[0], &status[0]);
            number = 1;
        } else if (left % 3 == 1) {
            MPI_Testsome(CALLS, list, &number, indices, status);
        } else {
            MPI_Waitsome(CALLS, list, &number, indices, status);
            good = good && number > 0;
        }
        for (int i = 0; i < number; i++) {
            good = good && indices[i] >= 0 && indices[i] < CALLS;
            if (!good)
                MPI_Abort(MPI_COMM_WORLD, 1);
            found[indices[i]]++;
            call[indices[i]].request = list[indices[i]];
            good = nb_finish(&call[indices[i]], "one of several") && good;
        }
        left -= number;
    }
    for (int i = 0; i < CALLS; i++)
        good = good && found[i] == 1;
    MPI_Waitany(CALLS, list, &index, MPI_STATUS_IGNORE);
    tap_ok(good && index == MPI_UNDEFINED, "each of %d requests is found once", CALLS);
}

int main(int argc, char **argv)
{
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    completes_as_native("MPI_Wait", by_wait);
    completes_as_native("MPI_Waitall", by_waitall);
    completes_as_native("MPI_Waitany", by_waitany);
    completes_as_native("MPI_Waitsome", by_waitsome);
    completes_as_native("MPI_Test", by_test);
    completes_as_native("MPI_Testall", by_testall);
    completes_as_native("MPI_Testany", by_testany);
    completes_as_native("MPI_Testsome", by_testsome);
    completes_as_native("MPI_Request_get_status", by_get_status);
    completes_as_native("MPI_Wait without status", by_wait_without_status);
    every_request_is_found_once();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    refused_as_native("MPI_Cancel", cancel);
    refused_as_native("MPI_Request_free", release);
    nb_within(LIMIT, "MPI_Finalize");
    status = tap_end();
    MPI_Finalize();
    return status;
}
