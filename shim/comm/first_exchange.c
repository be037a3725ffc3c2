/* First exchange: the ranks of a communicator compare what they have and make the private
 * communicator. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>

#include "core/base/fpenv.h"
#include "core/base/launcher.h"
#include "shim/comm/at_creation.h"
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
/* Seconds after which a waiting first exchange logs a warning. */
#define PATIENCE 30.0

#define WAITED "communicator \"%s\" of %d ranks: rank %d has waited %.3g s for the others in "

/* Writes how long this rank has waited in the first exchange, and causes that the user can remove.
 * Warning and error share the text. */
static int explain_wait(const struct shim_comm *c, double waited, char *text, size_t size)
{
    return snprintf(text, size,
                    c->first.at_creation ? WAITED
                        "the call that made it; is the library preloaded on every rank, with "
                        "the same SPARSESHIM_MODE, SPARSESHIM_REGISTER, SPARSESHIM_PROGRESS "
                        "and SPARSESHIM_DISABLE?%s"
                                         : WAITED
                        "its first eligible call; is the library preloaded on every rank, "
                        "with the same SPARSESHIM_MIN_COUNT, SPARSESHIM_PROGRESS and "
                        "SPARSESHIM_DISABLE, and do all ranks call the same collective with "
                        "the same count, datatype and operator?%s",
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

    for (unsigned round = 1; !done; round++) {
        if (shim_real.Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return SS_ERR_TRANSPORT;
        if (done)
            break;
        if (round % 4 == 0 && !shim_progress_idle())
            shim_progress();
        if (round % 64 != 0)
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

    if (!c->first.agreed[SHIM_EXCHANGE_TIMEOUT])
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

/* Returns a number, on the communicator's first rank, that no other first exchange of this process
 * has. The salt distinguishes first exchanges that other processes lead. */
static long long number_of(const struct shim_comm *c)
{
    if (c->rank != 0)
        return LLONG_MAX;
    return (long long)((shim.process.salt + atomic_fetch_add(&shim.table.numbers, 1)) &
                       (UINT64_MAX >> 2));
}

/* Posts the reduction of all ranks' proposals. */
static int post_exchange(struct shim_comm *c, bool knows_costs, bool ok)
{
    long long *proposal = c->first.proposal;
    uint64_t hashes[SHIM_SHARED];
    size_t rows[SHIM_SHARED];

    proposal[SHIM_EXCHANGE_OK] = ok && !shim.process.left_out;
    proposal[SHIM_EXCHANGE_PROTOCOL_MIN] = SHIM_PROTOCOL;
    proposal[SHIM_EXCHANGE_PROTOCOL_MAX] = -SHIM_PROTOCOL;
    proposal[SHIM_EXCHANGE_COSTS] = knows_costs;
    proposal[SHIM_EXCHANGE_TIMEOUT] = shim.settings.timeout > 0;
    proposal[SHIM_EXCHANGE_NONBLOCKING] = shim.requests.taken && !atomic_load(&shim.callbacks.any);
    proposal[SHIM_EXCHANGE_QUORUM] = c->rounds.open && !atomic_load(&shim.callbacks.any);
    proposal[SHIM_EXCHANGE_TRACE] = shim_clock_is_wanted();
    proposal[SHIM_EXCHANGE_NUMBER] = number_of(c);
    size_t shared = cfg_hash_each_shared(shim.cfg, hashes, rows, SHIM_SHARED);
    for (size_t i = 0; i < shared; i++) {
        proposal[SHIM_EXCHANGED + 2 * i] = (long long)hashes[i];
        proposal[SHIM_EXCHANGED + 2 * i + 1] = -(long long)hashes[i];
    }
    /* All versions send the same number of entries, so that another version is recognised instead
     * of truncated. */
    return shim_real.Iallreduce(proposal, c->first.agreed, SHIM_EXCHANGED + 2 * SHIM_SHARED,
                                MPI_LONG_LONG, MPI_MIN, c->handle, &c->first.request);
}

static bool accepted(const long long *agreed)
{
    return agreed[SHIM_EXCHANGE_OK] &&
           agreed[SHIM_EXCHANGE_PROTOCOL_MIN] == -agreed[SHIM_EXCHANGE_PROTOCOL_MAX];
}

/* Returns true if all ranks have the same value of option `i`. */
static bool is_same(const long long *agreed, size_t i)
{
    return agreed[SHIM_EXCHANGED + 2 * i] == -agreed[SHIM_EXCHANGED + 2 * i + 1];
}

static bool are_same(const long long *agreed)
{
    for (size_t i = 0; i < SHIM_SHARED; i++)
        if (!is_same(agreed, i))
            return false;
    return true;
}

/* Takes the number of the first exchange that all ranks of the world make for that of the job,
 * which ranks on several hosts cannot know otherwise. */
static void number_job(const struct shim_comm *c)
{
    uint64_t none = 0;

    if (c->size == shim.process.ranks && c->first.within_world)
        atomic_compare_exchange_strong(&shim.process.job, &none,
                                       (uint64_t)c->first.agreed[SHIM_EXCHANGE_NUMBER]);
}

/* Combines what each rank knows alone: memory, attribute, costs, settings. Polls, because a rank
 * without the library never comes. Returns SS_OK, SS_ERR_PEER if a rank cannot serve,
 * SS_ERR_TIMEOUT or SS_ERR_TRANSPORT. */
static int combine(struct shim_comm *c, bool knows_costs, bool ok)
{
    struct shim_first_exchange *first = &c->first;
    int status;

    if (post_exchange(c, knows_costs, ok) != MPI_SUCCESS)
        return SS_ERR_TRANSPORT;
    status = await(c, &first->request, true);
    if (status != SS_OK)
        return status;
    first->same_settings = are_same(first->agreed);
    number_job(c);
    return accepted(first->agreed) ? SS_OK : SS_ERR_PEER;
}

/* Writes a row as "SPARSESHIM_TIMEOUT (30 on rank 0)"; the index behind the table is the policy. */
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
        if (is_same(c->first.agreed, i))
            continue;
        if (length > 0)
            length += (size_t)snprintf(text + length, size - length, ", ");
        if (length < size)
            length += (size_t)differing(rows[i], c->rank, text + length, size - length);
    }
}

/* Makes a communicator from the group; may block, since all ranks have agreed. Unlike a duplicate,
 * it runs none of the application's attribute callbacks: a callback that fails on a single rank
 * leaves the other ranks of an MPI_Comm_idup waiting for ever (MPICH 4.0.2). If no communicator is
 * left, all ranks fail alike; MPICH 4.0.2 then returns a null handle without an error. */
static MPI_Comm make_one(const struct shim_comm *c, const char *suffix, int create_tag)
{
    MPI_Comm made = MPI_COMM_NULL;
    char tag[64];
    int err;

    snprintf(tag, sizeof tag, "sparseshim-%llx%s",
             (unsigned long long)c->first.agreed[SHIM_EXCHANGE_NUMBER], suffix);
    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        err = shim_real.Comm_create(c->handle, c->group, &made);
    else if (c->first.within_world && shim_real_create_from_group)
        err = shim_real_create_from_group(c->group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    else
        err = shim_real.Comm_create_group(c->handle, c->group, create_tag, &made);
    if (err != MPI_SUCCESS)
        made = MPI_COMM_NULL;
    if (made != MPI_COMM_NULL)
        shim_real.Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    return made;
}

uint64_t shim_comm_host(int rank)
{
    char digits[24];
    const uint64_t layout = cfg_forced(shim.cfg)->layout;
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)layout);

    return layout == 0 ? shim.settings.host : (uint64_t)(digits[rank % length] - '0');
}

/* Returns true if the ranks of one host share memory. A communicator that the program has just made
 * may never be used, and takes none. */
static bool wants_shared_memory(const struct shim_comm *c)
{
    return c->first.same_settings && shim.settings.aggregation != SS_AGGREGATION_OFF &&
           !shim.settings.observe && (!c->first.at_creation || c->handle == MPI_COMM_WORLD);
}

/* Finds out which ranks share a host, once all ranks have made the private communicator. */
static bool find_hosts(struct shim_comm *c)
{
    struct ss_layout *l = c->hosts.layout;
    const uint64_t own = shim_comm_host(c->rank);

    if (shim_real.Allgather(&own, 1, MPI_UINT64_T, l->ids, 1, MPI_UINT64_T, c->private) !=
        MPI_SUCCESS)
        return false;
    ss_layout_find(l);
    ss_comm_set_layout(c->core, l);
    if (l->hosts == 1 && wants_shared_memory(c))
        shim_shared_open(c);
    if (c->first.same_settings && ss_comm_wants_peers(c->core))
        shim_peers_open(c);
    return true;
}

/* Makes the private communicator, and, if all ranks serve partial calls, a second one for these. */
static bool make_private(struct shim_comm *c)
{
    c->private = make_one(c, "", CREATE_TAG);
    if (c->private != MPI_COMM_NULL && c->first.agreed[SHIM_EXCHANGE_QUORUM])
        c->rounds.comm = make_one(c, "-rounds", CREATE_TAG + 1);
    return c->private != MPI_COMM_NULL && find_hosts(c);
}

/* Logs the first exchange, with the costs of the network if they are known. */
static void tell_agreed(const struct shim_comm *c)
{
    struct ss_costs costs = ss_comm_costs(c->core);

    if (c->rank != 0)
        return;
    if (!costs.known || costs.alpha < 0 || costs.beta < 0)
        shim_say(CFG_DEBUG_INFO,
                 "communicator \"%s\" of %d ranks: first exchange done; its costs are %s", c->name,
                 c->size, costs.known ? "those of a table" : "measured in its first call");
    else
        shim_say(CFG_DEBUG_INFO,
                 "communicator \"%s\" of %d ranks: first exchange done; %.3g s per message, %.3g s "
                 "per byte",
                 c->name, c->size, costs.alpha, costs.beta);
}

/* Opens the private communicator for calls. */
static void open_private(struct shim_comm *c, struct ss_costs costs)
{
    shim_transport_use(&c->transport, c->private);
    if (c->first.agreed[SHIM_EXCHANGE_COSTS])
        ss_comm_set_costs(c->core, costs);
    if (!c->first.same_settings)
        ss_comm_differs(c->core);
    c->costs_logged = ss_comm_costs(c->core).known;
    shim_partial_open(c);
    tell_agreed(c);
}

/* Counts a private communicator of this process. Returns false if there are too many. */
static bool reserve(struct shim_comm *c)
{
    c->reserved = c->first.at_creation ? &shim.table.privates_at_creation : &shim.table.privates;
    return atomic_fetch_add(c->reserved, 1) < SHIM_PRIVATES;
}

/* Creates transport and core. Returns true if this rank can serve. */
static bool equip(struct shim_comm *c, bool ok)
{
    ok = reserve(c) && ok && shim_comm_proves_abi();
    if (ok && shim.requests.partial)
        shim_partial_equip(c);
    if (ok) {
        ok = shim_transport_open(&c->transport, c->rank, c->size) == SS_OK;
        c->core =
            ss_comm_create(&c->transport.base, &shim.settings, &shim.mem, &shim.stats, c->name);
        c->hosts.layout = ss_layout_create(c->size);
        if (!c->core || !c->hosts.layout)
            shim_comm_give_back();
        else
            c->hosts.layout->slice_least = cfg_forced(shim.cfg)->slice;
    }
    return ok && c->core && c->hosts.layout;
}

static int establish(struct shim_comm *c, bool ok)
{
    const struct ss_costs costs = shim_costs_of(c->handle);
    int status = combine(c, costs.known, equip(c, ok));

    if (status == SS_OK && !make_private(c))
        status = SS_ERR_PEER;
    if (status == SS_OK)
        shim_clock_measure(c);
    if (status == SS_OK)
        open_private(c, costs);
    else
        shim_comm_release(c);
    return status;
}

/* ---- which communicator it is ---- */

void shim_comm_read_name(struct shim_comm *c)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int len = 0;

    if (shim_real.Comm_get_name(c->handle, name, &len) == MPI_SUCCESS)
        snprintf(c->name, sizeof c->name, "%.*s", (int)sizeof c->name - 1, name);
    if (c->core)
        ss_comm_rename(c->core, c->name);
}

/* Finds size, rank, name and group. Returns false for a single rank, for an intercommunicator, and
 * for ranks of several worlds under Open MPI, whose mpirun of version 5 does not preload the
 * library into spawned processes, or where the program makes the communicator. */
static bool examine(struct shim_comm *c)
{
    c->size = shim_comm_size_of((uintptr_t)c->handle);
    if (c->size < 2 || shim_real.Comm_rank(c->handle, &c->rank) != MPI_SUCCESS)
        return false;
    if (shim_real.Comm_group(c->handle, &c->group) != MPI_SUCCESS) {
        c->group = MPI_GROUP_NULL;
        return false;
    }
    c->first.within_world = shim.process.sessions || c->handle == MPI_COMM_WORLD ||
                            shim_comm_within_world(c->group, c->size);
    if (!c->first.within_world && (c->first.at_creation || shim_abi.kind == SHIM_ABI_OPEN_MPI)) {
        shim_real.Group_free(&c->group);
        return false;
    }
    shim_comm_read_name(c);
    return true;
}

/* ---- first exchange ---- */

static int refuse_for_memory(uintptr_t handle)
{
    static const char text[] = "out of memory at the first eligible call on a communicator";

    shim_say(CFG_DEBUG_WARN, "%s", text);
    return shim_raise((MPI_Comm)handle, SS_ERR_MEMORY, text);
}

/* Logs a refusal on the first rank, and on a rank that cannot serve. */
static void tell_refused(const struct shim_comm *c)
{
    if (c->rank != 0 && c->first.proposal[SHIM_EXCHANGE_OK])
        return;
    shim_say(CFG_DEBUG_INFO,
             "communicator \"%s\": not every rank can serve it (too many communicators, memory, "
             "PROGRAMS); its %scalls pass through",
             c->name, c->first.at_creation ? "nonblocking " : "");
}

int shim_comm_raise_settings(uintptr_t handle)
{
    if (!atomic_exchange(&shim.problems.objects, false))
        return MPI_SUCCESS;
    atomic_fetch_add(&shim.stats.errors, 1);
    if (cfg_config_problem(shim.cfg))
        return shim_raise((MPI_Comm)handle, SS_ERR_PROTOCOL,
                          "the file of SPARSESHIM_CONFIG cannot be read, and the job would run "
                          "with other options than meant: correct the name, or leave it out");
    return shim_raise((MPI_Comm)handle, SS_ERR_PROTOCOL,
                      "SPARSESHIM_STRICT is on and a setting is not valid; see the messages on "
                      "the debug channel");
}

/* Returns a new entry that lets calls pass, which is not in the table yet; NULL if memory is short.
 */
static struct shim_comm *make_passing(uintptr_t handle)
{
    struct shim_comm *c = shim_comm_allocate();

    if (!c)
        return NULL;
    c->handle = (MPI_Comm)handle;
    c->in_table.refs = 1;
    c->state = SHIM_COMM_PASSES;
    return c;
}

/* Makes the first exchange and enters its outcome into the table. Takes the entry over. */
static int make_first_exchange(struct shim_comm *c, bool willing)
{
    const bool attached = shim_comm_attach(c->handle);
    /* Inside MPI_Finalize, MPICH 4.0.2 waits for ever when it makes a communicator. */
    const bool ok = willing && attached && !atomic_load(&shim.problems.objects) &&
                    !c->in_table.spare && !atomic_load(&shim.process.finalizing);
    char text[700];

    c->status = examine(c) ? establish(c, ok) : SS_ERR_PEER;
    if (c->status == SS_OK)
        c->state = SHIM_COMM_SERVED;
    else if (c->status == SS_ERR_TIMEOUT)
        c->state = SHIM_COMM_FAILED;
    else if (c->size > 1 && willing)
        tell_refused(c);
    if (c->first.at_creation && c->state == SHIM_COMM_PASSES && c->size > 1)
        c->state = SHIM_COMM_LATER;
    shim_comm_insert(c);
    if (c->state != SHIM_COMM_FAILED)
        return MPI_SUCCESS;
    atomic_fetch_add(&shim.stats.errors, 1);
    warn_of_timeout(c, text, sizeof text);
    return shim_raise(c->handle, c->status, text);
}

int shim_comm_first_exchange(uintptr_t handle)
{
    struct shim_comm *c;
    int err, objection;

    if (!shim_comm_exists(handle))
        return MPI_SUCCESS;
    shim_comm_forget(handle);
    c = make_passing(handle);
    if (!c) /* other ranks wait for this one */
        return refuse_for_memory(handle);
    err = make_first_exchange(c, true);
    objection = shim_comm_raise_settings(handle);
    return objection != MPI_SUCCESS ? objection : err;
}

bool shim_comm_count_creation(uintptr_t parent, unsigned *number)
{
    struct shim_comm *c = shim_comm_get(parent);
    const bool known = c && c->first.at_creation;

    if (known)
        *number = atomic_fetch_add(&c->first.created, 1) + 1;
    if (c)
        shim_comm_put(c);
    return known && *number <= SHIM_CREATIONS;
}

int shim_comm_exchange_at_creation(uintptr_t handle, unsigned number, bool willing)
{
    struct shim_comm *c;

    if (shim_comm_size_of(handle) < 2)
        return MPI_SUCCESS;
    c = make_passing(handle);
    if (!c)
        return refuse_for_memory(handle);
    c->first.at_creation = true;
    atomic_store(&c->first.created, number);
    return make_first_exchange(c, willing);
}

int shim_comm_leave_out(uintptr_t handle)
{
    struct shim_comm *c = shim_comm_agreed(handle);

    if (c) {
        shim_comm_put(c);
        return MPI_SUCCESS;
    }
    shim_comm_forget(handle);
    c = make_passing(handle);
    if (!c)
        return refuse_for_memory(handle);
    c->size = shim_comm_size_of(handle);
    shim_comm_attach(c->handle);
    shim_comm_insert(c);
    return MPI_SUCCESS;
}
