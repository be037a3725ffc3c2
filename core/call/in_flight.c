/* Calls of a communicator that are under way at once: their storage and their turns.
 *
 * A call waits only for earlier calls, by this rank's own decisions. The earliest of all ranks'
 * calls never waits, so that nothing hangs if ranks start calls at different times. A rank's votes
 * and results must not depend on these times:
 *
 * - The votes of a lane are decided in the order of its calls.
 * - A call uses only results of calls that have ended on every rank when it starts.
 * - Calls of one tensor follow each other.
 */
#include <stdlib.h>

#include "core/call/group.h"
#include "core/partial/rounds.h"

enum {
    MEASURED_TURNS = 64 /* one in so many calls of a lane runs alone and is measured */
};

/* ---- storage ---- */

struct ss_call *ss_comm_call(struct ss_comm *comm)
{
    return comm->slots[0];
}

/* ---- calls under way ---- */

enum { BITS = 64 };

static bool is_busy(const struct ss_comm *comm, unsigned slot)
{
    return comm->busy[slot / BITS] >> slot % BITS & 1;
}

static void link_open(struct ss_comm *comm, struct ss_call *call)
{
    call->turn.next_open = comm->open;
    call->turn.newer = NULL;
    *(comm->open ? &comm->open->turn.newer : &comm->oldest) = call;
    comm->open = call;
    comm->busy[call->slot / BITS] |= 1ULL << call->slot % BITS;
    comm->idle -= ss_work_size(&comm->works[call->slot]);
}

static void unlink_open(struct ss_comm *comm, struct ss_call *call)
{
    *(call->turn.newer ? &call->turn.newer->turn.next_open : &comm->open) = call->turn.next_open;
    *(call->turn.next_open ? &call->turn.next_open->turn.newer : &comm->oldest) = call->turn.newer;
    comm->busy[call->slot / BITS] &= ~(1ULL << call->slot % BITS);
    comm->idle += ss_work_size(&comm->works[call->slot]);
    comm->room -= call->turn.room;
}

static void unlink_all(struct ss_comm *comm)
{
    while (comm->open)
        unlink_open(comm, comm->open);
    comm->room = 0;
}

void ss_comm_begin_anew(struct ss_comm *comm)
{
    for (struct ss_call *call = comm->open; call; call = call->turn.next_open)
        if (call->f.c.x.spans.trace)
            ss_spans_close(&call->f.c.x.spans, NULL, ss_now(&call->f.c.x));
    unlink_all(comm);
    if (comm->rounds)
        ss_rounds_hold(comm->rounds, false);
    ss_grouping_forget(comm->grouping);
}

static struct ss_call *free_slot(struct ss_comm *comm)
{
    unsigned i = 0;

    while (i < comm->window && comm->busy[i / BITS] == UINT64_MAX)
        i += BITS;
    while (i < comm->window && is_busy(comm, i))
        i++;
    if (i >= comm->window)
        return NULL;
    if (!comm->slots[i] && (comm->slots[i] = calloc(1, sizeof *comm->slots[i])))
        comm->slots[i]->slot = i;
    return comm->slots[i];
}

static bool is_open(const struct ss_call *call)
{
    return call->stage == SS_STAGE_DRIVEN && call->driver->is_open && call->driver->is_open(call);
}

unsigned ss_in_flight_count(const struct ss_call *from)
{
    const struct ss_group *group = NULL;
    unsigned count = 0;

    for (const struct ss_call *o = from; o; o = o->turn.next_open) {
        count += !is_open(o) && (!o->seat.group || o->seat.group != group);
        group = o->seat.group;
    }
    return count;
}

struct ss_call *ss_comm_slot(struct ss_comm *comm)
{
    const struct ss_call *last = comm->open;
    unsigned most = comm->window;

    if (comm->t->calls > 0 && comm->t->calls / 2 < most)
        most = comm->t->calls / 2;
    if (!last)
        return comm->slots[0];
    if (!last->turn.passed || last->turn.alone)
        return NULL;
    bool full = comm->starts + 1 - comm->oldest->turn.index >= most;
    if (full) /* waiting for more calls would be in vain */
        ss_comm_hurry(comm);
    /* A group is under way once it votes (core/call/group.c). */
    bool many = !comm->grouping && ss_in_flight_count(last) >= comm->settings->in_flight;
    return full || many ? NULL : free_slot(comm);
}

size_t ss_in_flight_idle(const struct ss_comm *comm)
{
    return comm->idle;
}

bool ss_in_flight_drop_idle(struct ss_comm *comm)
{
    bool any = comm->idle > 0;

    for (unsigned i = 0; any && i < comm->window; i++)
        if (!is_busy(comm, i))
            ss_work_free(&comm->works[i]);
    comm->idle = 0;
    return any;
}

void ss_comm_give_back(struct ss_comm *comm)
{
    ss_in_flight_drop_idle(comm);
    ss_grouping_drop_idle(comm->grouping);
}

void ss_in_flight_give_back(struct ss_call *call)
{
    struct ss_comm *comm = call->f.comm;

    if (call->reason != SS_WHY_CANNOT || !atomic_load(&comm->mem->refused))
        return;
    ss_work_free(&comm->works[call->slot]);
    ss_comm_give_back(comm);
}

/* ---- findings that hold from a call on ---- */

/* A blocking call starts when all others have ended, on every rank. */
void ss_in_flight_set_from(const struct ss_call *call, uint64_t *from)
{
    uint64_t at = call->turn.index + (call->f.nonblocking ? call->f.comm->window : 1);

    if (*from == 0 || at < *from)
        *from = at;
}

bool ss_in_flight_is_from(const struct ss_call *call, uint64_t from)
{
    return from > 0 && (call->turn.index >= from || !call->f.nonblocking);
}

/* Returns true if the call with this index has ended on every rank when `call` starts. */
static bool has_ended(const struct ss_call *call, uint64_t index)
{
    return !call->f.nonblocking || index + call->f.comm->window <= call->turn.index;
}

/* ---- turns ---- */

void ss_in_flight_enter(struct ss_call *call)
{
    struct ss_comm *comm = call->f.comm;

    call->turn.index = ++comm->starts;
    if (!call->f.nonblocking)
        unlink_all(comm);
    link_open(comm, call);
}

void ss_in_flight_leave(struct ss_call *call)
{
    if (is_busy(call->f.comm, call->slot))
        unlink_open(call->f.comm, call);
}

size_t ss_in_flight_most_memory(const struct ss_exchange *x)
{
    size_t entry = sizeof(uint32_t) + x->esize, n = (size_t)x->n;
    size_t chunk = n < SS_CHUNK_ENTRIES ? n : SS_CHUNK_ENTRIES, size = (size_t)x->t->size;
    size_t messages = 4 + 2 * (size < SS_RECV_WINDOW ? size : SS_RECV_WINDOW);

    return 12 * n * entry + messages * ss_wire_bound(x->type, (uint32_t)chunk) + 1024 * size +
           (1 << 20);
}

/* Returns true if there is room for the most that all calls under way may take. */
static bool is_room(const struct ss_call *call)
{
    const struct ss_comm *comm = call->f.comm;
    size_t used = atomic_load(&comm->mem->used), left = comm->mem->limit;

    if (left == 0)
        return true;
    left = left > used ? left - used : 0;
    if (comm->room <= left) /* enough even if no call had anything yet */
        return true;
    for (const struct ss_call *o = call; o; o = o->turn.next_open) {
        size_t has = ss_work_size(&comm->works[o->slot]);
        size_t may = o->turn.room > has ? o->turn.room - has : 0;
        if (may > left)
            return false;
        left -= may;
    }
    return true;
}

/* Returns true for a window of a large call, for a call that is new or measured, and for a call
 * that would change the state of all calls. */
static bool wants_to_be_alone(const struct ss_call *call)
{
    const struct ss_comm *comm = call->f.comm;
    const struct ss_settings *s = comm->settings;
    const struct ss_exchange *x = &call->f.c.x;
    const struct ss_lane *lane = call->f.lane;
    bool learns = !ss_costs_fixed(s) && s->algorithm == SS_AUTO && !s->observe &&
                  !ss_group_may_merge(&call->f);

    return !call->f.nonblocking || x->n >= SS_WINDOW || call->f.key.window > 0 ||
           lane->turns == 0 || !comm->costs_agreed || comm->rounds || x->place->ops->remote ||
           (learns && (!lane->settled || lane->turns % MEASURED_TURNS == 0));
}

bool ss_in_flight_may_go(const struct ss_call *call)
{
    unsigned most = call->f.comm->settings->in_flight;

    return ss_in_flight_count(call->turn.next_open) < (most > 0 ? most : 1);
}

bool ss_in_flight_lane_turn(struct ss_call *call)
{
    struct ss_comm *comm = call->f.comm;
    bool first = !call->turn.next_open;

    if (!call->f.lane && !first && !ss_comm_knows_lane(comm, &call->f.key))
        return false;
    if (!call->f.lane)
        call->f.lane = ss_comm_lane(comm, &call->f.key, call->reported_n, call->reported_type);
    call->turn.alone = wants_to_be_alone(call);
    comm->room -= call->turn.room;
    call->turn.room = call->turn.alone ? 0 : ss_in_flight_most_memory(&call->f.c.x);
    comm->room += call->turn.room;
    if (first || call->turn.alone)
        return first;
    if (comm->grouping && !ss_group_may_merge(&call->f) && !ss_in_flight_may_go(call))
        return false;
    return is_room(call);
}

bool ss_in_flight_tensor_turn(const struct ss_call *call)
{
    for (const struct ss_call *o = call->turn.next_open; o; o = o->turn.next_open)
        if (call->f.tensor && o->f.tensor == call->f.tensor)
            return false;
    return true;
}

/* Returns the last result of the lane that all ranks have when they start the call. If more calls
 * may be under way than results are kept, a nonblocking call uses none. */
static struct ss_lane_result known_result(const struct ss_call *call)
{
    const struct ss_lane_result *r = call->f.lane->results;
    struct ss_lane_result last = {0};

    if (call->f.comm->grouping && call->f.nonblocking)
        return last;
    for (int i = 0; i < SS_IN_FLIGHT; i++)
        if (r[i].index > last.index && has_ended(call, r[i].index))
            last = r[i];
    return last;
}

void ss_in_flight_pass(struct ss_call *call)
{
    struct ss_lane *lane = call->f.lane;

    call->turn.passed = true;
    call->turn.on_lane = ++lane->turns;
    call->turn.measured = lane->planned_call;
    call->turn.past = known_result(call);
    for (struct ss_call *o = call; call->turn.next_open && o; o = o->turn.next_open)
        o->turn.overlapped = true;
}

void ss_in_flight_add_result(struct ss_call *call)
{
    struct ss_lane_result *oldest = call->f.lane->results;

    for (int i = 1; i < SS_IN_FLIGHT; i++)
        if (call->f.lane->results[i].index < oldest->index)
            oldest = &call->f.lane->results[i];
    *oldest = (struct ss_lane_result){call->turn.index, call->f.c.result_nnz,
                                      call->f.vote.ballot.nnz_sum};
}

/* ---- decisions ---- */

bool ss_in_flight_may_decide(const struct ss_call *call)
{
    for (const struct ss_call *o = call->turn.next_open; o; o = o->turn.next_open)
        if (o->f.lane == call->f.lane && !o->decided)
            return false;
    return true;
}

void ss_in_flight_set_skip(struct ss_call *call)
{
    struct ss_lane *lane = call->f.lane;

    lane->skip_index = call->turn.index;
    lane->skip_until = call->turn.on_lane + lane->history.skip;
    lane->pieces = call->f.vote.ballot.flags & SS_VOTE_PIECES;
}

bool ss_in_flight_is_skipped(const struct ss_call *call)
{
    return call->f.lane->history.skip > 0 && call->turn.on_lane <= call->f.lane->skip_until;
}

bool ss_in_flight_starts_skipped(const struct ss_call *call)
{
    return ss_in_flight_is_skipped(call) && has_ended(call, call->f.lane->skip_index);
}
