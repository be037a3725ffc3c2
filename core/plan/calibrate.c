/* Measures the costs of the network once per group of ranks. Every rank exchanges messages with its
 * neighbours on a ring: short ones for alpha, then growing ones until a round takes long enough
 * to be measured. Two more rounds of that size, which find the buckets of traffic shapers empty,
 * give beta. Alpha and beta are the better of two rounds, since other work on the machine only adds
 * time. A vote on the slowest rank's time decides how to go on. */
#include "core/plan/calibrate.h"

#include "core/plan/plan.h"

enum { ROUND, EXCHANGE, VOTE };
/* A round of long messages is cut into PIECES pieces: a neighbour may start one piece late, if the
 * ballot that it waits for is queued behind a piece on its link. */
enum { PIECES = 16, PIECE = 64 * 1024 };
enum { SHORT = 16, SMALLEST = 64 * 1024, LARGEST = PIECES * PIECE, ALPHA_MESSAGES = 8 };
static const double LONG_ENOUGH = 0.008; /* seconds */

static size_t piece_size(const struct ss_calibrate *s)
{
    return s->size == SHORT ? SHORT : s->size / PIECES;
}

static void start_round(const struct ss_exchange *x, struct ss_calibrate *s)
{
    s->messages = s->size == SHORT ? ALPHA_MESSAGES : PIECES;
    s->sent = s->received = 0;
    for (int i = 0; i < 4; i++)
        s->sends[i] = s->recvs[i] = (struct ss_request){0};
    s->begin = ss_now(x);
}

/* Sends a piece. Tries a refused send once more, since a rank that leaves here leaves its
 * neighbours waiting. */
static int send_piece(struct ss_exchange *x, int dst, struct ss_tag tag, const void *msg,
                      size_t len, struct ss_request *request)
{
    int status = x->t->ops->send(x->t, dst, tag, msg, len, request);

    return status == SS_OK ? SS_OK : x->t->ops->send(x->t, dst, tag, msg, len, request);
}

/* Exchanges the messages of a round. Short messages go one at a time, so that the time is that of a
 * message; pieces of long ones go up to 4 at once. */
static int exchange(struct ss_exchange *x, struct ss_calibrate *s)
{
    struct ss_transport *t = x->t;
    int width = s->size == SHORT ? 1 : 4;
    unsigned char *buffer = x->work->arena.data;
    struct ss_tag tag = {.call = x->number, .phase = SS_PHASE_CALIBRATE, .round = 0};

    for (int i = 0; i < width; i++)
        if (s->sends[i].status < 0 || s->recvs[i].status < 0)
            return SS_ERR_TRANSPORT;
    while (s->received < s->messages) {
        int at = s->received % width;
        int ahead = s->received + width < s->messages ? s->received + width : s->messages;
        while (s->sent < ahead) { /* posts a send and a receive together */
            int slot = s->sent % width;
            if (s->sends[slot].active)
                return SS_PENDING;
            if (t->ops->recv(t, s->previous, tag, buffer + (size_t)(slot + 1) * PIECE, PIECE,
                             &s->recvs[slot]) != SS_OK ||
                send_piece(x, s->next, tag, buffer, piece_size(s), &s->sends[slot]) != SS_OK)
                return SS_ERR_TRANSPORT;
            s->sent++;
            x->moved = true;
        }
        if (s->recvs[at].active || (width == 1 && s->sends[at].active))
            return SS_PENDING;
        if (s->recvs[at].status < 0)
            return SS_ERR_TRANSPORT;
        s->received++;
        x->moved = true;
    }
    for (int i = 0; i < width; i++)
        if (s->sends[i].active)
            return SS_PENDING;
    s->bytes += (uint64_t)s->messages * piece_size(s);
    return SS_OK;
}

static void start_vote(const struct ss_exchange *x, struct ss_calibrate *s, double seconds)
{
    ss_ballot_init(&s->vote.ballot);
    s->vote.ballot.costs[SS_COST_BETA] = ss_float_bits(seconds);
    ss_vote_start(&s->vote, x->t, x->number);
}

/* Takes the slowest rank's seconds of a round. Returns true if it was the last round. */
static bool next_round(struct ss_calibrate *s, double seconds)
{
    bool last = s->again;

    if ((s->size == SHORT || s->final) && !last) {
        s->again = true;
        s->seconds = seconds;
        return false;
    }
    s->again = false;
    if (last && s->seconds < seconds)
        seconds = s->seconds;
    if (s->size == SHORT) {
        s->alpha = seconds / ALPHA_MESSAGES;
        s->size = SMALLEST;
        return false;
    }
    if (!s->final) {
        s->final = (seconds >= LONG_ENOUGH && seconds >= 20 * s->alpha) || s->size >= LARGEST;
        if (!s->final)
            s->size *= 2;
        return false;
    }
    double beta = (seconds - s->alpha) / (double)s->size;
    if (beta < seconds / (double)s->size / 2) /* even at this size the time is mostly latency */
        beta = seconds / (double)s->size / 2;
    s->costs = (struct ss_costs){.known = true, .alpha = s->alpha, .beta = beta};
    return true;
}

int ss_calibrate_reserve(struct ss_exchange *x)
{
    return ss_buf_reserve(&x->work->arena, x->mem, 5 * PIECE);
}

void ss_calibrate_cancel(struct ss_exchange *x, struct ss_calibrate *s)
{
    ss_vote_cancel(&s->vote);
    for (int i = 0; i < 4; i++) {
        if (s->recvs[i].active)
            x->t->ops->cancel(x->t, &s->recvs[i]);
        if (s->sends[i].active)
            x->t->ops->cancel(x->t, &s->sends[i]);
    }
}

void ss_calibrate_start(struct ss_calibrate *s, struct ss_transport *t,
                        const struct ss_layout *layout)
{
    const int size = t->size, at = layout ? layout->ring[t->rank] : t->rank;
    const int next = (at + 1) % size, previous = (at + size - 1) % size;

    *s = (struct ss_calibrate){.size = SHORT,
                               .vote.exchange.t = t,
                               .next = layout ? layout->around[next] : next,
                               .previous = layout ? layout->around[previous] : previous};
}

int ss_calibrate_step(struct ss_exchange *x, struct ss_calibrate *s)
{
    int status;

    for (;;) {
        switch (s->step) {
        case ROUND:
            start_round(x, s);
            s->step = EXCHANGE;
            break;
        case EXCHANGE:
            if ((status = exchange(x, s)) != SS_OK)
                return status;
            start_vote(x, s, ss_now(x) - s->begin);
            s->step = VOTE;
            break;
        default:
            if ((status = ss_vote_step(&s->vote, &x->moved)) != SS_OK)
                return status;
            s->bytes += s->vote.bytes;
            if (next_round(s, ss_bits_float(s->vote.ballot.costs[SS_COST_BETA])))
                return SS_OK;
            s->step = ROUND;
            break;
        }
    }
}
