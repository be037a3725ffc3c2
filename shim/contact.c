#define _GNU_SOURCE 1
/* The ranks of a communicator meet: what is agreed, and the private communicator. */
#include <sched.h>
#include <stdio.h>

#include "shim/comm.h"
#include "shim/job.h"
#include "shim/log.h"
#include "shim/progress.h"
#include "shim/real.h"

/* MPICH has about 2044 communicators for a process. An application that uses most of them is left
 * most of them. */
enum { MAX_PRIVATES = 256 };

enum { CREATE_TAG = 0x5353 };

/* Seconds after which a first contact that is still waiting is worth a warning. */
#define PATIENCE 30.0

static void warn_of_waiting(const struct shim_comm *c, double waited)
{
    shim_say(
        CFG_DEBUG_WARN,
        "communicator \"%s\" of %d ranks: rank %d has waited %.0f s for the others in its first "
        "eligible call; is the library preloaded on every rank, with the same "
        "SPARSESHIM_MIN_COUNT, SPARSESHIM_PROGRESS and SPARSESHIM_DISABLE?",
        c->name, c->size, c->rank, waited);
}

/* Tests a request until it is done. SS_OK, SS_ERR_TRANSPORT, or SS_ERR_TIMEOUT with the request
 * still under way. */
static int await(const struct shim_comm *c, MPI_Request *request, bool warn)
{
    double begin = shim_now();
    int done = 0;

    for (unsigned turn = 1; !done; turn++) {
        if (shim_real.Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return SS_ERR_TRANSPORT;
        if (done)
            break;
        if (turn % 4 == 0 && !shim_progress_idle())
            shim_progress();
        if (turn % 64 != 0)
            continue;
        double waited = shim_now() - begin;
        if (shim.settings.timeout > 0 && waited > shim.settings.timeout)
            return SS_ERR_TIMEOUT;
        if (warn && waited > PATIENCE) {
            warn = false;
            warn_of_waiting(c, waited);
        }
        sched_yield();
    }
    return SS_OK;
}

int shim_comm_assemble(struct shim_comm *c)
{
    MPI_Request request;
    int status = SS_OK;

    if (!c->agreed[SHIM_MEET_TIMEOUT])
        return SS_OK;
    for (int i = 0; i < 2 && status == SS_OK; i++)
        status = shim_real.Ibarrier(c->private, &request) == MPI_SUCCESS ? await(c, &request, false)
                                                                         : SS_ERR_TRANSPORT;
    if (status != SS_OK) {
        c->status = status;
        c->state = SHIM_COMM_FAILED;
    }
    return status;
}

/* What this rank says at first contact, and the call that tells all. */
static int post_meeting(struct shim_comm *c, bool ok, bool has_private, MPI_Request *request)
{
    uint64_t hashes[SHIM_SHARED];
    size_t rows[SHIM_SHARED];

    c->proposal[SHIM_MEET_OK] = ok;
    c->proposal[SHIM_MEET_PROTOCOL_MIN] = SHIM_PROTOCOL;
    c->proposal[SHIM_MEET_PROTOCOL_MAX] = -SHIM_PROTOCOL;
    c->proposal[SHIM_MEET_COSTS] = c->costs.known;
    c->proposal[SHIM_MEET_TIMEOUT] = shim.settings.timeout > 0;
    c->proposal[SHIM_MEET_NONBLOCKING] = shim.takes_requests;
    c->proposal[SHIM_MEET_PRIVATE] = has_private;
    size_t shared = cfg_hash_each_shared(shim.cfg, hashes, rows, SHIM_SHARED);
    for (size_t i = 0; i < shared; i++) {
        c->proposal[SHIM_MEETING + 2 * i] = (long long)hashes[i];
        c->proposal[SHIM_MEETING + 2 * i + 1] = -(long long)hashes[i];
    }
    /* As many entries with any version: one with another table is told apart, not a truncation. */
    return shim_real.Iallreduce(c->proposal, c->agreed, SHIM_MEETING + 2 * SHIM_SHARED,
                                MPI_LONG_LONG, MPI_MIN, c->handle, request);
}

static bool accepted(const struct shim_comm *c)
{
    return c->agreed[SHIM_MEET_OK] &&
           c->agreed[SHIM_MEET_PROTOCOL_MIN] == -c->agreed[SHIM_MEET_PROTOCOL_MAX];
}

/* All ranks meet here and settle what a rank knows alone: memory, attribute, costs, settings.
 * Polled, because a rank without the library never comes. SS_OK, SS_ERR_PEER where a rank cannot,
 * SS_ERR_TIMEOUT, SS_ERR_TRANSPORT. */
static int meet(struct shim_comm *c, bool ok)
{
    MPI_Request request;
    int status;

    if (post_meeting(c, ok, true, &request) != MPI_SUCCESS)
        return SS_ERR_TRANSPORT;
    status = await(c, &request, true);
    if (status != SS_OK)
        return status;
    return accepted(c) ? SS_OK : SS_ERR_PEER;
}

void shim_comm_differing(const struct shim_comm *c, char *text, size_t size)
{
    uint64_t hashes[SHIM_SHARED];
    size_t rows[SHIM_SHARED], length = 0;
    size_t shared = cfg_hash_each_shared(shim.cfg, hashes, rows, SHIM_SHARED);
    struct cfg_row row;

    text[0] = '\0';
    for (size_t i = 0; i < shared && length < size; i++)
        if (c->agreed[SHIM_MEETING + 2 * i] != -c->agreed[SHIM_MEETING + 2 * i + 1] &&
            cfg_row(shim.cfg, rows[i], &row))
            length +=
                (size_t)snprintf(text + length, size - length, "%sSPARSESHIM_%s (%s on rank %d)",
                                 length > 0 ? ", " : "", row.name, row.value, c->rank);
}

/* All ranks have met inside one blocking call of the application, so this may block. Unlike a
 * duplicate, a communicator made from the group runs none of the application's attribute callbacks:
 * one that fails on a single rank leaves the other ranks of an MPI_Comm_idup waiting for ever
 * (MPICH 4.0.2). Where no more communicators are to be had, all ranks are refused alike. */
static int make_private(struct shim_comm *c)
{
    MPI_Group group;
    int err;

    if (shim_real.Comm_group(c->handle, &group) != MPI_SUCCESS)
        return SS_ERR_TRANSPORT;
    err = shim_real.Comm_create_group(c->handle, group, CREATE_TAG, &c->private);
    shim_real.Group_free(&group);
    if (err != MPI_SUCCESS) {
        c->private = MPI_COMM_NULL;
        return SS_ERR_TRANSPORT;
    }
    atomic_fetch_add(&shim.privates, 1);
    return SS_OK;
}

/* The private communicator stands. */
static void open_private(struct shim_comm *c)
{
    shim_real.Comm_set_errhandler(c->private, MPI_ERRORS_RETURN);
    shim_transport_use(&c->transport, c->private);
    if (c->agreed[SHIM_MEET_COSTS])
        ss_comm_set_costs(c->core, c->costs);
    c->nonblocking = c->agreed[SHIM_MEET_NONBLOCKING];
}

/* Transport and core. Returns whether this rank can serve. */
static bool equip(struct shim_comm *c, bool ok)
{
    c->costs = shim_costs_of(c->handle);
    if (ok) {
        ok = shim_transport_open(&c->transport, c->rank, c->size) == SS_OK;
        c->transport_open = true;
        c->core =
            ss_comm_create(&c->transport.base, &shim.settings, &shim.mem, &shim.stats, c->name);
    }
    return ok && c->core && atomic_load(&shim.privates) < MAX_PRIVATES;
}

/* What goes wrong between the two is ours to deal with, not the application's handler's. */
static bool quiet(struct shim_comm *c, MPI_Errhandler *handler)
{
    return shim_real.Comm_get_errhandler(c->handle, handler) == MPI_SUCCESS &&
           shim_real.Comm_set_errhandler(c->handle, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

static void unquiet(struct shim_comm *c, MPI_Errhandler *handler)
{
    shim_real.Comm_set_errhandler(c->handle, *handler);
    shim_real.Errhandler_free(handler);
}

static int establish(struct shim_comm *c, bool ok)
{
    MPI_Errhandler handler;
    int status;

    ok = equip(c, ok);
    if (!quiet(c, &handler))
        return SS_ERR_TRANSPORT;
    status = meet(c, ok);
    if (status == SS_OK)
        status = make_private(c);
    unquiet(c, &handler);
    if (status == SS_OK)
        open_private(c);
    else
        shim_comm_release(c);
    return status;
}

/* Both calls are posted at once, in this order on all ranks: the application may free the
 * communicator, or call other collectives on it, as soon as it gets its request. So the private
 * communicator is a duplicate, which the ranks ask for before they know whether all can serve. */
static bool start_meeting(struct shim_comm *c, bool ok)
{
    MPI_Errhandler handler;
    bool duplicates, meets;

    ok = equip(c, ok);
    if (!quiet(c, &handler))
        return false;
    duplicates = shim_real.Comm_idup(c->handle, &c->private, &c->duplicating) == MPI_SUCCESS;
    if (duplicates)
        atomic_fetch_add(&shim.privates, 1);
    else
        c->duplicating = MPI_REQUEST_NULL;
    meets = post_meeting(c, ok, duplicates, &c->meeting) == MPI_SUCCESS;
    unquiet(c, &handler);
    return meets;
}

/* Size, rank and name; false for an intercommunicator and for a single rank. */
static bool examine(struct shim_comm *c)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int inter = 1, len = 0;

    if (shim_real.Comm_test_inter(c->handle, &inter) != MPI_SUCCESS || inter ||
        shim_real.Comm_size(c->handle, &c->size) != MPI_SUCCESS || c->size < 2 ||
        shim_real.Comm_rank(c->handle, &c->rank) != MPI_SUCCESS)
        return false;
    if (shim_real.Comm_get_name(c->handle, name, &len) == MPI_SUCCESS)
        snprintf(c->name, sizeof c->name, "%.*s", (int)sizeof c->name - 1, name);
    return true;
}

static int refuse_for_memory(uintptr_t handle)
{
    static const char text[] = "out of memory at the first eligible call on a communicator";

    shim_say(CFG_DEBUG_WARN, "%s", text);
    return shim_raise((MPI_Comm)handle, SS_ERR_MEMORY, text);
}

static void tell_refused(const struct shim_comm *c)
{
    shim_say(CFG_DEBUG_INFO,
             "communicator \"%s\": no private communicator to be had on every rank; its calls "
             "pass through",
             c->name);
}

static int raise_settings(const struct shim_comm *c)
{
    atomic_fetch_add(&shim.stats.errors, 1);
    return shim_raise(c->handle, SS_ERR_PROTOCOL,
                      "SPARSESHIM_STRICT is on and a setting is not valid; see the messages on "
                      "the debug channel");
}

bool shim_comm_exists(uintptr_t handle)
{
    MPI_Comm comm = (MPI_Comm)handle;
    MPI_Errhandler handler;
    int size;
    bool is;

    if (shim.sessions || shim_real.Comm_get_errhandler(MPI_COMM_SELF, &handler) != MPI_SUCCESS)
        return true;
    shim_real.Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    is = shim_real.Comm_size(comm, &size) == MPI_SUCCESS;
    shim_real.Comm_set_errhandler(MPI_COMM_SELF, handler);
    shim_real.Errhandler_free(&handler);
    return is;
}

int shim_comm_contact(uintptr_t handle)
{
    struct shim_comm *c;
    bool objects;
    char text[256];
    bool attached;
    int status;

    if (!shim_comm_exists(handle))
        return MPI_SUCCESS;
    objects = atomic_exchange(&shim.objects_to_settings, false);
    c = shim_comm_allocate();
    if (!c) /* the other ranks wait: no silence */
        return refuse_for_memory(handle);
    c->handle = (MPI_Comm)handle;
    c->refs = 1;
    c->state = SHIM_COMM_PASSES;
    attached = shim_comm_attach(c->handle);
    status = examine(c) ? establish(c, attached && !objects && !c->spare) : SS_ERR_PEER;
    if (status == SS_OK)
        c->state = SHIM_COMM_SERVED;
    else if (status == SS_ERR_TIMEOUT)
        c->state = SHIM_COMM_FAILED;
    else if (c->size > 1)
        tell_refused(c);
    c->status = status;
    shim_comm_insert(c);

    if (objects)
        return raise_settings(c);
    if (c->state == SHIM_COMM_FAILED) {
        atomic_fetch_add(&shim.stats.errors, 1);
        snprintf(
            text, sizeof text,
            "rank %d waited %.3g s (SPARSESHIM_TIMEOUT) for the other ranks in the first "
            "eligible call on its communicator: the library is not preloaded on every rank, or "
            "SPARSESHIM_MIN_COUNT differs",
            c->rank, shim.settings.timeout);
        shim_say(CFG_DEBUG_WARN, "%s", text);
        return shim_raise(c->handle, status, text);
    }
    return MPI_SUCCESS;
}

int shim_comm_contact_nonblocking(uintptr_t handle)
{
    struct shim_comm *c;
    bool objects;
    bool attached;

    if (!shim_comm_exists(handle))
        return MPI_SUCCESS;
    objects = atomic_exchange(&shim.objects_to_settings, false);
    c = shim_comm_allocate();
    if (!c)
        return refuse_for_memory(handle);
    c->handle = (MPI_Comm)handle;
    c->refs = 1;
    c->state = SHIM_COMM_PASSES;
    attached = shim_comm_attach(c->handle);
    if (examine(c)) {
        c->met = shim_now();
        if (start_meeting(c, attached && !objects && !c->spare)) {
            c->state = SHIM_COMM_MEETING;
        } else {
            c->state = SHIM_COMM_FAILED;
            c->status = SS_ERR_TRANSPORT;
        }
    }
    shim_comm_insert(c);
    if (c->state == SHIM_COMM_MEETING) {
        pthread_mutex_lock(&c->lock);
        c->polled = true;
        shim_progress_enter(c);
        pthread_mutex_unlock(&c->lock);
    }
    return objects ? raise_settings(c) : MPI_SUCCESS;
}

/* Both requests are done. Where a rank could not even ask for the duplicate, the others' never
 * comes: their calls, which nothing can carry any more, end with an error. */
static void settle(struct shim_comm *c, int status)
{
    if (status == SS_OK && !c->agreed[SHIM_MEET_PRIVATE])
        status = SS_ERR_TRANSPORT;
    if (status != SS_OK) {
        c->status = status;
        c->state = SHIM_COMM_FAILED;
        shim_say(CFG_DEBUG_WARN,
                 "communicator \"%s\" of %d ranks: no private communicator (%s); its nonblocking "
                 "calls end with an error. SPARSESHIM_PROGRESS=off passes them through",
                 c->name, c->size, ss_status_text(status));
    } else if (accepted(c)) {
        open_private(c);
        c->nonblocking = true; /* on all who came: calls are in the queue already */
        c->state = SHIM_COMM_SERVED;
    } else {
        shim_real.Comm_set_errhandler(c->private, MPI_ERRORS_RETURN);
        c->state = SHIM_COMM_PRIVATE;
        tell_refused(c);
    }
}

bool shim_comm_meet_step(struct shim_comm *c)
{
    int met = 1, duplicated = 1;
    double waited = shim_now() - c->met;

    if (shim_real.Test(&c->meeting, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        settle(c, SS_ERR_TRANSPORT);
        return true;
    }
    if (met && !c->agreed[SHIM_MEET_PRIVATE]) {
        settle(c, SS_OK);
        return true;
    }
    if (shim_real.Test(&c->duplicating, &duplicated, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        c->private = MPI_COMM_NULL;
        atomic_fetch_sub(&shim.privates, 1);
        settle(c, SS_ERR_TRANSPORT);
        return true;
    }
    if (met && duplicated) {
        settle(c, SS_OK);
        return true;
    }
    if (shim.settings.timeout > 0 && waited > shim.settings.timeout) {
        settle(c, SS_ERR_TIMEOUT);
        return true;
    }
    if (waited > PATIENCE && !c->warned) {
        c->warned = true;
        warn_of_waiting(c, waited);
    }
    return false;
}
