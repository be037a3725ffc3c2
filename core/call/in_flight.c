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

static const struct ss_turn *older(const struct ss_turn *turn)
{
    return turn->next_open ? &turn->next_open->turn : NULL;
}

static bool is_busy(const struct ss_comm *comm, unsigned slot)
{
    return comm->busy[slot / BITS] >> slot % BITS & 1;
}

static void unlink_open(struct ss_comm *comm, const struct ss_turn *turn)
{
    *(turn->newer ? &turn->newer->turn.next_open : &comm->open) = turn->next_open;
    *(turn->next_open ? &turn->next_open->turn.newer : &comm->oldest) = turn->newer;
    comm->busy[turn->slot / BITS] &= ~(1ULL << turn->slot % BITS);
    comm->idle += ss_work_size(&comm->works[turn->slot]);
    comm->room -= turn->room;
}

static void unlink_all(struct ss_comm *comm)
{
    while (comm->open)
        unlink_open(comm, &comm->open->turn);
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
        comm->slots[i]->turn.slot = i;
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

void ss_in_flight_give_back(const struct ss_turn *turn)
{
    struct ss_comm *comm = turn->f->comm;

    if (!atomic_load(&comm->mem->refused))
        return;
    ss_work_free(&comm->works[turn->slot]);
    ss_comm_give_back(comm);
}

/* ---- findings that hold from a call on ---- */

/* A blocking call starts when all others have ended, on every rank. */
void ss_in_flight_set_from(const struct ss_turn *turn, uint64_t *from)
{
    uint64_t at = turn->index + (turn->f->nonblocking ? turn->f->comm->window : 1);

    if (*from == 0 || at < *from)
        *from = at;
}

bool ss_in_flight_is_from(const struct ss_turn *turn, uint64_t from)
{
    return from > 0 && (turn->index >= from || !turn->f->nonblocking);
}

/* Returns true if the call with this index has ended on every rank when the call of `turn`
 * starts. */
static bool has_ended(const struct ss_turn *turn, uint64_t index)
{
    return !turn->f->nonblocking || index + turn->f->comm->window <= turn->index;
}

/* ---- turns ---- */

void ss_in_flight_enter(struct ss_call *call)
{
    struct ss_comm *comm = call->f.comm;
    struct ss_turn *turn = &call->turn;

    turn->index = ++comm->starts;
    if (!call->f.nonblocking)
        unlink_all(comm);
    turn->next_open = comm->open;
    turn->newer = NULL;
    *(comm->open ? &comm->open->turn.newer : &comm->oldest) = call;
    comm->open = call;
    comm->busy[turn->slot / BITS] |= 1ULL << turn->slot % BITS;
    comm->idle -= ss_work_size(&comm->works[turn->slot]);
}

void ss_in_flight_leave(struct ss_turn *turn)
{
    if (is_busy(turn->f->comm, turn->slot))
        unlink_open(turn->f->comm, turn);
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
static bool is_room(const struct ss_turn *turn)
{
    const struct ss_comm *comm = turn->f->comm;
    size_t used = atomic_load(&comm->mem->used), left = comm->mem->limit;

    if (left == 0)
        return true;
    left = left > used ? left - used : 0;
    if (comm->room <= left) /* enough even if no call had anything yet */
        return true;
    for (const struct ss_turn *o = turn; o; o = older(o)) {
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

    return !f->nonblocking || x->n >= SS_WINDOW || f->key.window > 0 || lane->turns == 0 ||
           !comm->costs_agreed || comm->rounds || x->backend->ops->remote ||
           (learns && (!lane->settled || lane->turns % MEASURED_TURNS == 0));
}

bool ss_in_flight_may_go(const struct ss_turn *turn)
{
    unsigned most = turn->f->comm->settings->in_flight;

    return ss_in_flight_count(turn->next_open) < (most > 0 ? most : 1);
}

static bool has_lane_turn(struct ss_turn *turn)
{
    struct ss_feedback *f = turn->f;
    struct ss_comm *comm = f->comm;
    bool first = !turn->next_open;

    if (!f->lane && !first && !ss_comm_knows_lane(comm, &f->key))
        return false;
    if (!f->lane)
        f->lane = ss_comm_lane(comm, &f->key, f->reported_n, f->reported_type);
    turn->alone = wants_to_be_alone(f);
    comm->room -= turn->room;
    turn->room = turn->alone ? 0 : ss_in_flight_most_memory(&f->c.x);
    comm->room += turn->room;
    if (first || turn->alone)
        return first;
    if (comm->grouping && !ss_group_may_merge(f) && !ss_in_flight_may_go(turn))
        return false;
    return is_room(turn);
}

static bool has_tensor_turn(const struct ss_turn *turn)
{
    for (const struct ss_turn *o = older(turn); o; o = older(o))
        if (turn->f->tensor && o->f->tensor == turn->f->tensor)
            return false;
    return true;
}

bool ss_in_flight_has_turn(struct ss_turn *turn)
{
    struct ss_feedback *f = turn->f;

    if (!has_lane_turn(turn))
        return false;
    if (f->found.number == 0 && ss_kind_has_tensor(f))
        ss_topk_find(f);
    return has_tensor_turn(turn);
}

/* Returns the last result of the lane that all ranks have when they start the call. If more calls
 * may be under way than results are kept, a nonblocking call uses none. */
static struct ss_lane_result known_result(const struct ss_turn *turn)
{
    const struct ss_lane_result *r = turn->f->lane->results;
    struct ss_lane_result last = {0};

    if (turn->f->comm->grouping && turn->f->nonblocking)
        return last;
    for (int i = 0; i < SS_IN_FLIGHT; i++)
        if (r[i].index > last.index && has_ended(turn, r[i].index))
            last = r[i];
    return last;
}

void ss_in_flight_pass(struct ss_turn *turn)
{
    struct ss_lane *lane = turn->f->lane;

    turn->passed = true;
    turn->on_lane = ++lane->turns;
    turn->measured = lane->planned_call;
    turn->past = known_result(turn);
    if (turn->next_open)
        turn->overlapped = true;
    for (struct ss_call *o = turn->next_open; o; o = o->turn.next_open)
        o->turn.overlapped = true;
}

void ss_in_flight_add_result(const struct ss_turn *turn)
{
    const struct ss_feedback *f = turn->f;
    struct ss_lane_result *oldest = f->lane->results;

    for (int i = 1; i < SS_IN_FLIGHT; i++)
        if (f->lane->results[i].index < oldest->index)
            oldest = &f->lane->results[i];
    *oldest = (struct ss_lane_result){turn->index, f->c.result_nnz, f->vote.ballot.nnz_sum};
}

void ss_in_flight_book_seconds(const struct ss_turn *turn, double seconds)
{
    struct ss_lane *lane = turn->f->lane;

    if (!turn->overlapped && lane->planned_call <= turn->f->c.x.number)
        lane->history.last_seconds = seconds;
}

/* ---- decisions ---- */

bool ss_in_flight_may_decide(const struct ss_turn *turn)
{
    for (const struct ss_call *o = turn->next_open; o; o = o->turn.next_open)
        if (o->f.lane == turn->f->lane && !o->decided)
            return false;
    return true;
}

void ss_in_flight_set_skip(const struct ss_turn *turn)
{
    struct ss_lane *lane = turn->f->lane;

    lane->skip_index = turn->index;
    lane->skip_until = turn->on_lane + lane->history.skip;
    lane->pieces = turn->f->vote.ballot.flags & SS_VOTE_PIECES;
}

bool ss_in_flight_is_skipped(const struct ss_turn *turn)
{
    return turn->f->lane->history.skip > 0 && turn->on_lane <= turn->f->lane->skip_until;
}

bool ss_in_flight_starts_skipped(const struct ss_turn *turn)
{
    return ss_in_flight_is_skipped(turn) && has_ended(turn, turn->f->lane->skip_index);
}
