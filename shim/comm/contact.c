/* First contact: the ranks of a communicator meet, agree, and make the private communicator. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>

#include "core/base/fpenv.h"
#include "core/base/launcher.h"
#include "shim/comm/clock.h"
#include "shim/comm/comm.h"
#include "shim/comm/partial_calls.h"
#include "shim/comm/peers.h"
#include "shim/comm/progress.h"
#include "shim/comm/shared.h"
#include "shim/mpi/errors.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

enum { CREATE_TAG = 0x5353 };
/* Seconds after which a waiting first contact logs a warning. */
#define PATIENCE 30.0

/* Writes how long this rank has waited at first contact, and causes that the user can remove.
 * Warning and error share the text. */
static int explain_wait(const struct shim_comm *c, double waited, char *text, size_t size)
{
    return snprintf(
        text, size,
        "communicator \"%s\" of %d ranks: rank %d has waited %.3g s for the others in its first "
        "eligible call; is the library preloaded on every rank, with the same "
        "SPARSESHIM_MIN_COUNT, SPARSESHIM_PROGRESS and SPARSESHIM_DISABLE, and do all ranks call "
        "the same collective with the same count, datatype and operator?%s",
        c->name, c->size, c->rank, waited, ss_launcher_advice());
}

static void warn_of_waiting(const struct shim_comm *c, double waited)
{
    char text[600];

    explain_wait(c, waited, text, sizeof text);
    shim_say(CFG_DEBUG_WARN, "%s", text);
}

/* Warns of a wait that TIMEOUT has ended, and keeps the text. */
static void warn_of_timeout(const struct shim_comm *c, char *text, size_t size)
{
    int length = explain_wait(c, shim.settings.timeout, text, size);

    if (length >= 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, " (SPARSESHIM_TIMEOUT has ended the wait)");
    shim_say(CFG_DEBUG_WARN, "%s", text);
}

/* Tests a request until it is done. Returns SS_OK, SS_ERR_TRANSPORT, or SS_ERR_TIMEOUT with the
 * request still active. */
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
    MPI_Request request = 0;
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

/* Returns a number, on the communicator's first rank, that no other first contact of this process
 * has. The salt distinguishes first contacts that other processes lead. */
static long long number_of(const struct shim_comm *c)
{
    if (c->rank != 0)
        return LLONG_MAX;
    return (long long)((shim.salt + atomic_fetch_add(&shim.numbers, 1)) & (UINT64_MAX >> 2));
}

/* Posts the reduction of all ranks' proposals. */
static int post_meeting(struct shim_comm *c, bool ok)
{
    uint64_t hashes[SHIM_SHARED];
    size_t rows[SHIM_SHARED];

    c->proposal[SHIM_MEET_OK] = ok && !shim.left_out;
    c->proposal[SHIM_MEET_PROTOCOL_MIN] = SHIM_PROTOCOL;
    c->proposal[SHIM_MEET_PROTOCOL_MAX] = -SHIM_PROTOCOL;
    c->proposal[SHIM_MEET_COSTS] = c->costs.known;
    c->proposal[SHIM_MEET_TIMEOUT] = shim.settings.timeout > 0;
    c->proposal[SHIM_MEET_NONBLOCKING] = shim.takes_requests && !atomic_load(&shim.callbacks);
    c->proposal[SHIM_MEET_QUORUM] = c->rounds_open && !atomic_load(&shim.callbacks);
    c->proposal[SHIM_MEET_TRACE] = shim_clock_is_wanted();
    c->proposal[SHIM_MEET_NUMBER] = number_of(c);
    size_t shared = cfg_hash_each_shared(shim.cfg, hashes, rows, SHIM_SHARED);
    for (size_t i = 0; i < shared; i++) {
        c->proposal[SHIM_MEETING + 2 * i] = (long long)hashes[i];
        c->proposal[SHIM_MEETING + 2 * i + 1] = -(long long)hashes[i];
    }
    /* All versions send the same number of entries, so that another version is recognised instead
     * of truncated. */
    return shim_real.Iallreduce(c->proposal, c->agreed, SHIM_MEETING + 2 * SHIM_SHARED,
                                MPI_LONG_LONG, MPI_MIN, c->handle, &c->meeting);
}

static bool accepted(const struct shim_comm *c)
{
    return c->agreed[SHIM_MEET_OK] &&
           c->agreed[SHIM_MEET_PROTOCOL_MIN] == -c->agreed[SHIM_MEET_PROTOCOL_MAX];
}

/* Meets all ranks and combines what each knows alone: memory, attribute, costs, settings. Polls,
 * because a rank without the library never comes. Returns SS_OK, SS_ERR_PEER if a rank cannot
 * serve, SS_ERR_TIMEOUT or SS_ERR_TRANSPORT. */
static int meet(struct shim_comm *c, bool ok)
{
    int status;

    if (post_meeting(c, ok) != MPI_SUCCESS)
        return SS_ERR_TRANSPORT;
    status = await(c, &c->meeting, true);
    if (status != SS_OK)
        return status;
    return accepted(c) ? SS_OK : SS_ERR_PEER;
}

/* Writes a row as "SPARSESHIM_SEED (1 on rank 0)"; the index behind the table is the policy. */
static int differing(size_t row_index, int rank, char *text, size_t size)
{
    struct cfg_row row;
    char policy[200];

    if (cfg_row(shim.cfg, row_index, &row))
        return snprintf(text, size, "SPARSESHIM_%s (%s on rank %d)", row.name, row.value, rank);
    if (row_index == CFG_SHARED_TEST)
        return snprintf(text, size, "SPARSESHIM_TEST (set otherwise on rank %d)", rank);
    cfg_policy(shim.cfg, policy, sizeof policy);
    return snprintf(text, size, "the policy of sparseshim.conf (%s on rank %d)", policy, rank);
}

void shim_comm_differing(const struct shim_comm *c, char *text, size_t size)
{
    uint64_t hashes[SHIM_SHARED];
    size_t rows[SHIM_SHARED], length = 0;
    size_t shared = cfg_hash_each_shared(shim.cfg, hashes, rows, SHIM_SHARED);

    text[0] = '\0';
    for (size_t i = 0; i < shared && length < size; i++) {
        if (c->agreed[SHIM_MEETING + 2 * i] == -c->agreed[SHIM_MEETING + 2 * i + 1])
            continue;
        if (length > 0)
            length += (size_t)snprintf(text + length, size - length, ", ");
        if (length < size)
            length += (size_t)differing(rows[i], c->rank, text + length, size - length);
    }
}

/* Returns true if the private communicator can be made without a handler of the application and
 * without its communicator, which it may have freed meanwhile. This takes a function of MPI 4 or of
 * Open MPI, and ranks of one world. */
static bool can_be_quiet(const struct shim_comm *c)
{
    return c->within_world &&
           (shim_real_create_from_group || (shim_real_create_group && !shim.sessions));
}

bool shim_comm_meets_in_nonblocking(void)
{
    return shim_abi.kind != SHIM_ABI_OPEN_MPI || shim_real_create_group;
}

/* Makes a communicator of Open MPI. In a blocking first contact, MPI_Comm_create is one more
 * collective of the application's communicator. A nonblocking one cannot add a collective there. */
static int make_of_open_mpi(const struct shim_comm *c, long long number, MPI_Comm *made)
{
    if (c->state == SHIM_COMM_MEETING)
        return shim_comm_make_quietly(c->group, number, made);
    return shim_real.Comm_create(c->handle, c->group, made);
}

/* Makes a communicator from the group; may block, since all ranks have met. Unlike a duplicate, it
 * runs none of the application's attribute callbacks: a callback that fails on a single rank leaves
 * the other ranks of an MPI_Comm_idup waiting for ever (MPICH 4.0.2). If no communicator is left,
 * all ranks fail alike; MPICH 4.0.2 then returns a null handle without an error. */
static MPI_Comm make_one(const struct shim_comm *c, const char *suffix, int create_tag)
{
    MPI_Comm made = MPI_COMM_NULL;
    char tag[64];
    int err;

    snprintf(tag, sizeof tag, "sparseshim-%llx%s", (unsigned long long)c->agreed[SHIM_MEET_NUMBER],
             suffix);
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        err = make_of_open_mpi(c, c->agreed[SHIM_MEET_NUMBER] + (create_tag != CREATE_TAG), &made);
    else if (can_be_quiet(c))
        err = shim_real_create_from_group(c->group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    else
        err = shim_real.Comm_create_group(c->handle, c->group, create_tag, &made);
    if (err != MPI_SUCCESS)
        made = MPI_COMM_NULL;
    if (made != MPI_COMM_NULL)
        shim_real.Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

static bool is_same(const struct shim_comm *c)
{
    const long long *agreed = &c->agreed[SHIM_MEETING];

    for (size_t i = 0; i < SHIM_SHARED; i++)
        if (agreed[2 * i] != -agreed[2 * i + 1])
            return false;
    return true;
}

uint64_t shim_comm_host(int rank)
{
    char digits[24];
    const uint64_t layout = cfg_forced(shim.cfg)->layout;
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)layout);

    return layout == 0 ? shim.settings.host : (uint64_t)(digits[rank % length] - '0');
}

/* Finds out which ranks share a host, once all ranks have made the private communicator. */
static bool find_hosts(struct shim_comm *c)
{
    struct ss_layout *l = c->layout;
    const uint64_t own = shim_comm_host(c->rank);

    if (shim_real.Allgather(&own, 1, MPI_UINT64_T, l->ids, 1, MPI_UINT64_T, c->private) !=
        MPI_SUCCESS)
        return false;
    ss_layout_find(l);
    ss_comm_set_layout(c->core, l);
    if (l->hosts == 1 && is_same(c) && shim.settings.aggregation != SS_AGGREGATION_OFF &&
        !shim.settings.observe)
        shim_shared_meet(c);
    if (is_same(c) && ss_comm_wants_peers(c->core))
        shim_peers_meet(c);
    return true;
}

/* Makes the private communicator, and, if all ranks serve partial calls, a second one for these. */
static bool make_private(struct shim_comm *c)
{
    c->private = make_one(c, "", CREATE_TAG);
    if (c->private != MPI_COMM_NULL && c->agreed[SHIM_MEET_QUORUM])
        c->private_rounds = make_one(c, "-rounds", CREATE_TAG + 1);
    return c->private != MPI_COMM_NULL && find_hosts(c);
}

/* Logs the first contact, with the costs of the network if they are known. */
static void tell_met(const struct shim_comm *c)
{
    struct ss_costs costs = ss_comm_costs(c->core);

    if (c->rank != 0)
        return;
    if (!costs.known || costs.alpha < 0 || costs.beta < 0)
        shim_say(CFG_DEBUG_INFO, "communicator \"%s\" of %d ranks: met; its costs are %s", c->name,
                 c->size, costs.known ? "those of a table" : "measured in its first call");
    else
        shim_say(CFG_DEBUG_INFO,
                 "communicator \"%s\" of %d ranks: met; %.3g s per message, %.3g s per byte",
                 c->name, c->size, costs.alpha, costs.beta);
}

/* Opens the private communicator for calls. */
static void open_private(struct shim_comm *c)
{
    shim_transport_use(&c->transport, c->private);
    if (c->agreed[SHIM_MEET_COSTS])
        ss_comm_set_costs(c->core, c->costs);
    c->nonblocking = c->agreed[SHIM_MEET_NONBLOCKING];
    c->same_settings = is_same(c);
    if (!c->same_settings)
        ss_comm_differs(c->core);
    c->costs_logged = ss_comm_costs(c->core).known;
    shim_partial_open(c);
    tell_met(c);
}

/* Counts a private communicator of this process. Returns false if there are too many. */
static bool reserve(struct shim_comm *c)
{
    c->reserved = true;
    return atomic_fetch_add(&shim.privates, 1) < SHIM_PRIVATES;
}

/* Creates transport and core. Returns true if this rank can serve. */
static bool equip(struct shim_comm *c, bool ok)
{
    c->costs = shim_costs_of(c->handle);
    ok = reserve(c) && ok && shim_comm_proves_abi();
    if (ok && shim.serves_partial)
        shim_partial_equip(c);
    if (ok) {
        ok = shim_transport_open(&c->transport, c->rank, c->size) == SS_OK;
        c->transport_open = true;
        c->core =
            ss_comm_create(&c->transport.base, &shim.settings, &shim.mem, &shim.stats, c->name);
        c->layout = ss_layout_create(c->size);
        if (!c->core || !c->layout)
            shim_comm_give_back();
        else
            c->layout->slice_least = cfg_forced(shim.cfg)->slice;
    }
    return ok && c->core && c->layout;
}

static int establish(struct shim_comm *c, bool ok)
{
    int status = meet(c, equip(c, ok));

    if (status == SS_OK && !make_private(c))
        status = SS_ERR_PEER;
    if (status == SS_OK)
        shim_clock_meet(c);
    if (status == SS_OK)
        open_private(c);
    else
        shim_comm_release(c);
    return status;
}

/* ---- which communicator it is ---- */

/* Finds size, rank, name and group. Returns false for a single rank, for an intercommunicator, and
 * under Open MPI for ranks of several worlds: mpirun of Open MPI 5 does not preload the library
 * into spawned processes. */
static bool examine(struct shim_comm *c)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int len = 0;

    c->size = shim_comm_size_of((uintptr_t)c->handle);
    if (c->size < 2 || shim_real.Comm_rank(c->handle, &c->rank) != MPI_SUCCESS)
        return false;
    if (shim_real.Comm_group(c->handle, &c->group) != MPI_SUCCESS) {
        c->group = MPI_GROUP_NULL;
        return false;
    }
    c->within_world =
        shim.sessions || c->handle == MPI_COMM_WORLD || shim_comm_within_world(c->group, c->size);
    if (!c->within_world && shim_abi.kind == SHIM_ABI_OPEN_MPI) {
        shim_real.Group_free(&c->group);
        return false;
    }
    if (shim_real.Comm_get_name(c->handle, name, &len) == MPI_SUCCESS)
        snprintf(c->name, sizeof c->name, "%.*s", (int)sizeof c->name - 1, name);
    return true;
}

/* ---- first contact ---- */

static int refuse_for_memory(uintptr_t handle)
{
    static const char text[] = "out of memory at the first eligible call on a communicator";

    shim_say(CFG_DEBUG_WARN, "%s", text);
    return shim_raise((MPI_Comm)handle, SS_ERR_MEMORY, text);
}

/* Logs a refusal on the first rank, and on a rank that cannot serve. */
static void tell_refused(const struct shim_comm *c)
{
    if (c->rank != 0 && c->proposal[SHIM_MEET_OK])
        return;
    shim_say(
        CFG_DEBUG_INFO,
        "communicator \"%s\": not every rank can serve it (more than %d communicators, memory, "
        "callbacks, PROGRAMS); its calls pass through",
        c->name, SHIM_PRIVATES);
}

static int raise_settings(const struct shim_comm *c)
{
    atomic_fetch_add(&shim.stats.errors, 1);
    return shim_raise(c->handle, SS_ERR_PROTOCOL,
                      "SPARSESHIM_STRICT is on and a setting is not valid; see the messages on "
                      "the debug channel");
}

int shim_comm_contact(uintptr_t handle)
{
    struct shim_comm *c;
    bool objects, attached, ok;
    char text[700];
    int status;

    if (!shim_comm_exists(handle))
        return MPI_SUCCESS;
    shim_comm_forget_seen(handle);
    objects = atomic_exchange(&shim.objects_to_settings, false);
    c = shim_comm_allocate();
    if (!c) /* other ranks wait for this one */
        return refuse_for_memory(handle);
    c->handle = (MPI_Comm)handle;
    c->refs = 1;
    c->state = SHIM_COMM_PASSES;
    attached = shim_comm_attach(c->handle);
    /* Inside MPI_Finalize, MPICH 4.0.2 waits for ever when it makes a communicator. */
    ok = attached && !objects && !c->spare && !atomic_load(&shim.finalizing);
    status = examine(c) ? establish(c, ok) : SS_ERR_PEER;
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
        warn_of_timeout(c, text, sizeof text);
        return shim_raise(c->handle, status, text);
    }
    return MPI_SUCCESS;
}

/* Returns true if this rank lets threads take part. A rank that only has attribute keys says so in
 * its votes instead: if it refused here, it would pass a call at once that other ranks still queue,
 * and the order of collectives would differ. */
static bool may_meet(void)
{
    return !atomic_load(&shim.operators) && !atomic_load(&shim.watch.shut);
}

/* Returns true if a thread that makes the private communicator runs code of the program: Open MPI
 * copies the attributes of MPI_COMM_WORLD then. */
static bool copies_attributes(void)
{
    return shim_abi.kind == SHIM_ABI_OPEN_MPI && atomic_load(&shim.callbacks);
}

static void start_meeting(struct shim_comm *c, bool ok)
{
    ok = equip(c, ok && can_be_quiet(c) && may_meet() && shim_comm_has_room());
    c->met = shim_now();
    if (post_meeting(c, ok && !copies_attributes()) != MPI_SUCCESS)
        c->meeting = MPI_REQUEST_NULL;
    else if (ok)
        c->state = SHIM_COMM_MEETING;
}

static void see(struct shim_comm *c)
{
    c->size = shim_comm_size_of((uintptr_t)c->handle);
    shim_comm_attach(c->handle);
    if (c->size > 1)
        c->state = SHIM_COMM_SEEN;
    shim_comm_insert(c);
}

/* Returns a new entry that lets calls pass, which is not in the table yet; NULL if memory is short.
 */
static struct shim_comm *make_passing(uintptr_t handle)
{
    struct shim_comm *c;

    shim_comm_forget_seen(handle);
    c = shim_comm_allocate();
    if (!c)
        return NULL;
    c->handle = (MPI_Comm)handle;
    c->refs = 1;
    c->state = SHIM_COMM_PASSES;
    return c;
}

int shim_comm_leave_out(uintptr_t handle)
{
    bool seen;
    struct shim_comm *c = shim_comm_met(handle, &seen);

    if (c) {
        shim_comm_put(c);
        return MPI_SUCCESS;
    }
    c = make_passing(handle);
    if (!c)
        return refuse_for_memory(handle);
    c->size = shim_comm_size_of(handle);
    shim_comm_attach(c->handle);
    shim_comm_insert(c);
    return MPI_SUCCESS;
}

int shim_comm_contact_nonblocking(uintptr_t handle, bool seen)
{
    struct shim_comm *c;
    bool attached, objects;

    if (!shim_comm_exists(handle))
        return MPI_SUCCESS;
    c = make_passing(handle);
    if (!c)
        return refuse_for_memory(handle);
    objects = atomic_exchange(&shim.objects_to_settings, false);
    if (!seen) {
        see(c);
        return objects ? raise_settings(c) : MPI_SUCCESS;
    }
    attached = shim_comm_attach(c->handle);
    if (examine(c))
        start_meeting(c, attached && !objects && !c->spare && shim.takes_requests);
    shim_comm_insert(c);
    if (c->meeting != MPI_REQUEST_NULL) {
        pthread_mutex_lock(&c->lock);
        c->polled = true;
        shim_progress_enter(c);
        pthread_mutex_unlock(&c->lock);
    }
    return objects ? raise_settings(c) : MPI_SUCCESS;
}

/* Makes the private communicator in a thread. Each rank makes it when it sees that the ranks have
 * met, in a call that waits for the other ranks. Each communicator has a thread of its own: with
 * one thread for all, two ranks could be busy with different communicators. */
static void *create(void *argument)
{
    struct shim_comm *c = argument;
    struct ss_fpenv_full creator;

    /* Sums of the program may run in here, the one called just now first of all. */
    ss_fpenv_enter_full(&creator);
    ss_fpenv_leave(ss_fpenv_rounding(creator.vector));
    bool made = make_private(c);
    if (made)
        shim_clock_meet(c);
    atomic_store(&c->creation, made ? SHIM_CREATED : SHIM_NOT_TO_BE_HAD);
    shim_comm_put(c);
    ss_fpenv_leave_full(&creator);
    atomic_fetch_sub(&shim.watch.inside, 1);
    return NULL;
}

/* Starts the thread. If there is none, or the shim's threads may not call MPI, the caller makes the
 * communicator and waits for the other ranks' threads. */
static void start_creation(struct shim_comm *c)
{
    pthread_t thread;

    atomic_store(&c->creation, SHIM_CREATING);
    pthread_mutex_lock(&shim.table_lock);
    c->refs++;
    pthread_mutex_unlock(&shim.table_lock);
    atomic_fetch_add(&shim.watch.inside, 1);
    if (shim_progress_is_open() && shim_thread_start(&thread, create, c) == 0)
        pthread_detach(thread);
    else
        create(c);
}

static int settle(struct shim_comm *c, int status)
{
    char text[700];

    if (status == SS_OK) {
        open_private(c);
        c->nonblocking = true; /* on all ranks that came: calls are in the queue */
        c->state = SHIM_COMM_SERVED;
    } else if (status == SS_ERR_PEER) {
        tell_refused(c);
    } else {
        c->status = status;
        c->state = SHIM_COMM_FAILED;
        if (status == SS_ERR_TIMEOUT)
            warn_of_timeout(c, text, sizeof text);
        else
            shim_say(CFG_DEBUG_WARN, "communicator \"%s\" of %d ranks: %s at the first contact",
                     c->name, c->size, ss_status_text(status));
    }
    return status;
}

static int wait_on(struct shim_comm *c)
{
    double waited = shim_now() - c->met;

    if (shim.settings.timeout > 0 && waited > shim.settings.timeout)
        return settle(c, SS_ERR_TIMEOUT);
    if (waited > PATIENCE && !c->warned) {
        c->warned = true;
        warn_of_waiting(c, waited);
    }
    return SS_PENDING;
}

int shim_comm_meet_step(struct shim_comm *c, bool *moved)
{
    int creation = atomic_load(&c->creation), met = 0;

    *moved = true;
    if (c->meeting != MPI_REQUEST_NULL) {
        if (shim_real.Test(&c->meeting, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return settle(c, SS_ERR_TRANSPORT);
        *moved = met;
        if (!met)
            return wait_on(c);
        /* this rank had refused, and the meeting has informed the other ranks */
        if (c->state != SHIM_COMM_MEETING)
            return SS_ERR_PEER;
        if (!accepted(c))
            return settle(c, SS_ERR_PEER);
        start_creation(c);
        return SS_PENDING;
    }
    *moved = creation != SHIM_CREATING;
    if (creation == SHIM_CREATING)
        return wait_on(c);
    return settle(c, creation == SHIM_CREATED ? SS_OK : SS_ERR_PEER);
}

bool shim_comm_meets(struct shim_comm *c)
{
    bool meets;

    pthread_mutex_lock(&c->lock);
    meets = c->meeting != MPI_REQUEST_NULL && c->state != SHIM_COMM_FAILED;
    pthread_mutex_unlock(&c->lock);
    return meets;
}
