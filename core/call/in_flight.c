/* Calls of a communicator that are under way at once: their storage and their order.
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
    MEASURED_CALLS = 64 /* one in so many calls of a lane runs alone and is measured */
};

/* ---- storage ---- */

struct ss_call *ss_comm_call(struct ss_comm *comm)
{
    return comm->slots[0];
}

/* ---- calls under way ---- */

enum { BITS = 64 };

static const struct ss_flight *older(const struct ss_flight *flight)
{
    return flight->next_open ? &flight->next_open->flight : NULL;
}

static bool is_busy(const struct ss_comm *comm, unsigned slot)
{
    return comm->busy[slot / BITS] >> slot % BITS & 1;
}

static void unlink_open(struct ss_comm *comm, const struct ss_flight *flight)
{
    *(flight->newer ? &flight->newer->flight.next_open : &comm->open) = flight->next_open;
    *(flight->next_open ? &flight->next_open->flight.newer : &comm->oldest) = flight->newer;
    comm->busy[flight->slot / BITS] &= ~(1ULL << flight->slot % BITS);
    comm->idle += ss_work_size(&comm->works[flight->slot]);
    comm->room -= flight->room;
}

static void unlink_all(struct ss_comm *comm)
{
    while (comm->open)
        unlink_open(comm, &comm->open->flight);
    comm->room = 0;
}

void ss_comm_begin_anew(struct ss_comm *comm)
{
    for (struct ss_call *call = comm->open; call; call = call->flight.next_open)
        if (call->f.c.x.spans.trace)
            ss_spans_close(&call->f.c.x.spans, NULL, ss_now(&call->f.c.x));
    unlink_all(comm);
    if (comm->rounds)
        ss_rounds_block(comm->rounds, false);
    ss_grouping_forget(comm->grouping);
}

static struct ss_call *free_slot(struct ss_comm *comm)
{
    unsigned i = 0;

    while (i < comm->most_in_flight && comm->busy[i / BITS] == UINT64_MAX)
        i += BITS;
    while (i < comm->most_in_flight && is_busy(comm, i))
        i++;
    if (i >= comm->most_in_flight)
        return NULL;
    if (!comm->slots[i] && (comm->slots[i] = calloc(1, sizeof *comm->slots[i])))
        comm->slots[i]->flight.slot = i;
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

    for (const struct ss_call *o = from; o; o = o->flight.next_open) {
        count += !is_open(o) && (!o->member.group || o->member.group != group);
        group = o->member.group;
    }
    return count;
}

struct ss_call *ss_comm_slot(struct ss_comm *comm)
{
    const struct ss_call *last = comm->open;
    unsigned most = comm->most_in_flight;

    if (comm->t->calls > 0 && comm->t->calls / 2 < most)
        most = comm->t->calls / 2;
    if (!last)
        return comm->slots[0];
    if (!last->flight.begun || last->flight.alone)
        return NULL;
    bool full = comm->starts + 1 - comm->oldest->flight.index >= most;
    if (full) /* waiting for more calls would be in vain */
        ss_comm_wait_for_none(comm);
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

    for (unsigned i = 0; any && i < comm->most_in_flight; i++)
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

void ss_in_flight_give_back(const struct ss_flight *flight)
{
    struct ss_comm *comm = flight->f->comm;

    if (!atomic_load(&comm->mem->refused))
        return;
    ss_work_free(&comm->works[flight->slot]);
    ss_comm_give_back(comm);
}

/* ---- findings that hold from a call on ---- */

/* A blocking call starts when all others have ended, on every rank. */
void ss_in_flight_set_from(const struct ss_flight *flight, uint64_t *from)
{
    uint64_t at = flight->index + (flight->f->nonblocking ? flight->f->comm->most_in_flight : 1);

    if (*from == 0 || at < *from)
        *from = at;
}

bool ss_in_flight_is_from(const struct ss_flight *flight, uint64_t from)
{
    return from > 0 && (flight->index >= from || !flight->f->nonblocking);
}

/* Returns true if the call with this index has ended on every rank when the call of `flight`
 * starts. */
static bool has_ended(const struct ss_flight *flight, uint64_t index)
{
    return !flight->f->nonblocking || index + flight->f->comm->most_in_flight <= flight->index;
}

/* ---- order ---- */

void ss_in_flight_enter(struct ss_call *call)
{
    struct ss_comm *comm = call->f.comm;
    struct ss_flight *flight = &call->flight;

    flight->index = ++comm->starts;
    if (!call->f.nonblocking)
        unlink_all(comm);
    flight->next_open = comm->open;
    flight->newer = NULL;
    *(comm->open ? &comm->open->flight.newer : &comm->oldest) = call;
    comm->open = call;
    comm->busy[flight->slot / BITS] |= 1ULL << flight->slot % BITS;
    comm->idle -= ss_work_size(&comm->works[flight->slot]);
}

void ss_in_flight_leave(struct ss_flight *flight)
{
    if (is_busy(flight->f->comm, flight->slot))
        unlink_open(flight->f->comm, flight);
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
static bool is_room(const struct ss_flight *flight)
{
    const struct ss_comm *comm = flight->f->comm;
    size_t used = atomic_load(&comm->mem->used), left = comm->mem->limit;

    if (left == 0)
        return true;
    left = left > used ? left - used : 0;
    if (comm->room <= left) /* enough even if no call had anything yet */
        return true;
    for (const struct ss_flight *o = flight; o; o = older(o)) {
        size_t has = ss_work_size(&comm->works[o->slot]);
        size_t may = o->room > has ? o->room - has : 0;
        if (may > left)
            return false;
        left -= may;
    }
    return true;
}

/* Returns true for a window of a large call, for a call that is new or measured, and for a call
 * that would change the state of all calls. */
static bool wants_to_be_alone(const struct ss_feedback *f)
{
    const struct ss_comm *comm = f->comm;
    const struct ss_settings *s = comm->settings;
    const struct ss_exchange *x = &f->c.x;
    const struct ss_lane *lane = f->lane;
    bool learns =
        !ss_costs_fixed(s) && s->algorithm == SS_AUTO && !s->observe && !ss_group_may_merge(f);

    return !f->nonblocking || x->n >= SS_WINDOW || f->key.window > 0 || lane->begun == 0 ||
           !comm->costs_agreed || comm->rounds || x->backend->ops->remote ||
           (learns && (!lane->settled || lane->begun % MEASURED_CALLS == 0));
}

bool ss_in_flight_may_go(const struct ss_flight *flight)
{
    unsigned most = flight->f->comm->settings->in_flight;

    return ss_in_flight_count(flight->next_open) < (most > 0 ? most : 1);
}

static bool may_begin_on_lane(struct ss_flight *flight)
{
    struct ss_feedback *f = flight->f;
    struct ss_comm *comm = f->comm;
    bool first = !flight->next_open;

    if (!f->lane && !first && !ss_comm_knows_lane(comm, &f->key))
        return false;
    if (!f->lane)
        f->lane = ss_comm_lane(comm, &f->key, f->reported_n, f->reported_type);
    flight->alone = wants_to_be_alone(f);
    comm->room -= flight->room;
    flight->room = flight->alone ? 0 : ss_in_flight_most_memory(&f->c.x);
    comm->room += flight->room;
    if (first || flight->alone)
        return first;
    if (comm->grouping && !ss_group_may_merge(f) && !ss_in_flight_may_go(flight))
        return false;
    return is_room(flight);
}

static bool may_begin_on_tensor(const struct ss_flight *flight)
{
    for (const struct ss_flight *o = older(flight); o; o = older(o))
        if (flight->f->tensor && o->f->tensor == flight->f->tensor)
            return false;
    return true;
}

bool ss_in_flight_may_begin(struct ss_flight *flight)
{
    struct ss_feedback *f = flight->f;

    if (!may_begin_on_lane(flight))
        return false;
    if (f->found.number == 0 && ss_kind_has_tensor(f))
        ss_topk_find(f);
    return may_begin_on_tensor(flight);
}

/* Returns the last result of the lane that all ranks have when they start the call. If more calls
 * may be under way than results are kept, a nonblocking call uses none. */
static struct ss_lane_result known_result(const struct ss_flight *flight)
{
    const struct ss_lane_result *r = flight->f->lane->results;
    struct ss_lane_result last = {0};

    if (flight->f->comm->grouping && flight->f->nonblocking)
        return last;
    for (int i = 0; i < SS_IN_FLIGHT; i++)
        if (r[i].index > last.index && has_ended(flight, r[i].index))
            last = r[i];
    return last;
}

void ss_in_flight_begin(struct ss_flight *flight)
{
    struct ss_lane *lane = flight->f->lane;

    flight->begun = true;
    flight->on_lane = ++lane->begun;
    flight->measured = lane->planned_call;
    flight->past = known_result(flight);
    if (flight->next_open)
        flight->overlapped = true;
    for (struct ss_call *o = flight->next_open; o; o = o->flight.next_open)
        o->flight.overlapped = true;
}

void ss_in_flight_add_result(const struct ss_flight *flight)
{
    const struct ss_feedback *f = flight->f;
    struct ss_lane_result *oldest = f->lane->results;

    for (int i = 1; i < SS_IN_FLIGHT; i++)
        if (f->lane->results[i].index < oldest->index)
            oldest = &f->lane->results[i];
    *oldest = (struct ss_lane_result){flight->index, f->c.result_nnz, f->vote.ballot.nnz_sum};
}

void ss_in_flight_book_seconds(const struct ss_flight *flight, double seconds)
{
    struct ss_lane *lane = flight->f->lane;

    if (!flight->overlapped && lane->planned_call <= flight->f->c.x.number)
        lane->history.last_seconds = seconds;
}

/* ---- decisions ---- */

bool ss_in_flight_may_decide(const struct ss_flight *flight)
{
    for (const struct ss_call *o = flight->next_open; o; o = o->flight.next_open)
        if (o->f.lane == flight->f->lane && !o->decided)
            return false;
    return true;
}

void ss_in_flight_set_skip(const struct ss_flight *flight)
{
    struct ss_lane *lane = flight->f->lane;

    lane->skip_index = flight->index;
    lane->skip_until = flight->on_lane + lane->history.skip;
    lane->pieces = flight->f->vote.ballot.flags & SS_VOTE_PIECES;
}

bool ss_in_flight_is_skipped(const struct ss_flight *flight)
{
    return flight->f->lane->history.skip > 0 && flight->on_lane <= flight->f->lane->skip_until;
}

bool ss_in_flight_starts_skipped(const struct ss_flight *flight)
{
    return ss_in_flight_is_skipped(flight) && has_ended(flight, flight->f->lane->skip_index);
}
