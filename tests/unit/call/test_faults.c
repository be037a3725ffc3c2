/* Together or not at all (core/README.md, invariant 6): every collective, algorithm and form of
 * values against every fault. No rank waits for ever, what fails on one rank fails on all, by the
 * next call at the latest, and what a lossy call had claimed is back in the residual. */
#include "tests/unit/support/fault_job.h"

enum fault { REFUSED, DAMAGED, LOST, STARVED, PROMISED, DIFFERENT, FAULTS };

static const char *const fault_names[FAULTS] = {
    [REFUSED] = "a send is refused", [DAMAGED] = "a message is damaged",
    [LOST] = "a message is lost",    [STARVED] = "memory is short after the vote",
    [PROMISED] = "no more memory",   [DIFFERENT] = "a rank makes another call"};

#define EXACT(form, name)                                                                          \
    {                                                                                              \
        .kind = form, .algorithm = name                                                            \
    }
#define TOPK(name, form)                                                                           \
    {                                                                                              \
        .algorithm = name, .topk = true, .values = form                                            \
    }
#define EXACT_ALLREDUCE(id, word) EXACT(SS_KIND_ALLREDUCE, id),
#define ROUNDED(id, word)                                                                          \
    TOPK(id, SS_VALUES_SAME), TOPK(id, SS_VALUES_BF16), TOPK(id, SS_VALUES_Q8),                    \
        TOPK(id, SS_VALUES_Q4), TOPK(id, SS_VALUES_Q2),

#define WHOLE(id, word)                                                                            \
    TOPK(id, SS_VALUES_BF16), TOPK(id, SS_VALUES_Q8), TOPK(id, SS_VALUES_Q4),                      \
        TOPK(id, SS_VALUES_Q2),

static const struct subject exact[] = {
    EXACT(SS_KIND_ALLREDUCE, SS_TWO_LEVEL), EXACT(SS_KIND_ALLGATHER, SS_RING),
    EXACT(SS_KIND_REDUCE_SCATTER, SS_RING), EXACT(SS_KIND_REDUCE, SS_RING),
    SS_EXACT_LIST(EXACT_ALLREDUCE)};
/* Parts of two ranks of 720 elements are too short to be worth it. */
static const struct subject skewed[] = {{.algorithm = SS_SPLIT_ALLGATHER, .skewed = true},
                                        {.algorithm = SS_TWO_LEVEL, .skewed = true}};
/* Costs are measured in the first call, whatever runs then. */
static const struct subject measured[] = {{.algorithm = SS_RING, .measured = true}};
static const struct subject oktopk[] = {TOPK(SS_OKTOPK, SS_VALUES_SAME)};
static const struct subject balanced[] = {{.algorithm = SS_OKTOPK, .topk = true, .uneven = true}};
static const struct subject gtopk[] = {TOPK(SS_GTOPK, SS_VALUES_SAME)};
static const struct subject lossy[] = {TOPK(SS_AUTO, SS_VALUES_BF16),
                                       SS_ONE_LEVEL_LIST(ROUNDED) SS_WHOLE_LIST(WHOLE)};

#define BY_HOST(name, form)                                                                        \
    {                                                                                              \
        .algorithm = name, .topk = true, .values = form, .by_host = true                           \
    }
static const struct subject by_host[] = {BY_HOST(SS_RECURSIVE_DOUBLING, SS_VALUES_SAME),
                                         BY_HOST(SS_SPLIT_ALLGATHER, SS_VALUES_BF16),
                                         BY_HOST(SS_DSAR, SS_VALUES_SAME)};
static const struct subject by_host_global[] = {BY_HOST(SS_OKTOPK, SS_VALUES_SAME),
                                                BY_HOST(SS_OKTOPK, SS_VALUES_BF16),
                                                BY_HOST(SS_GTOPK, SS_VALUES_SAME)};

/* The ranks on which the fault happens, in turn. */
enum who { EACH, EVEN, MIDDLE, SECOND };

/* Short memory: buffers of earlier calls that are freed, a bit each. */
enum gone {
    ARENA = 1,
    MARKS = 2,
    OWN_ERROR = 4,
    PART_ERROR = 8,
    IDX_0 = 16,
    IDX_1 = 32,
    IDX_2 = 64,
    IDX_BETWEEN = 128
};

struct row {
    const struct subject *what;
    size_t count;
    enum fault fault;
    int least, most, step; /* ranks */
    enum who who;
    bool longer;    /* streams of several chunks */
    int before;     /* good calls before the one in which it happens */
    unsigned about; /* sends that it happens to, evenly spread; 0: all of them */
    bool waits;     /* sends wait for their receive */
    unsigned gone;
};

#define ROW(subjects, name, ...)                                                                   \
    {                                                                                              \
        .what = subjects, .count = sizeof(subjects) / sizeof((subjects)[0]), .fault = name,        \
        __VA_ARGS__                                                                                \
    }
#define RANKS(from, to, by) .least = from, .most = to, .step = by
/* The first call of all, and one with what an earlier one has agreed on. */
#define OKTOPK(name, calls)                                                                        \
    ROW(oktopk, name, RANKS(2, 7, 5), .who = EVEN, .before = calls, .waits = true),                \
        ROW(balanced, name, RANKS(2, 7, 5), .who = EVEN, .before = calls + 1, .waits = true)
static const struct row matrix[] = {
    ROW(exact, REFUSED, RANKS(2, 4, 1), .who = EACH, .waits = true),
    ROW(exact, REFUSED, RANKS(6, 6, 1), .who = EVEN, .waits = true), /* three hosts */
    ROW(measured, REFUSED, RANKS(2, 6, 1), .who = EACH, .waits = true, .about = 40),
    ROW(measured, LOST, RANKS(2, 4, 1), .who = SECOND, .about = 20),
    ROW(exact, REFUSED, RANKS(2, 4, 1), .who = SECOND, .longer = true, .waits = true, .about = 10),
    ROW(exact, DAMAGED, RANKS(2, 6, 2), .who = MIDDLE),
    ROW(exact, LOST, RANKS(2, 6, 1), .who = SECOND),
    ROW(exact, STARVED, RANKS(2, 6, 1), .who = EACH, .waits = true),
    ROW(exact, STARVED, RANKS(2, 6, 1), .who = MIDDLE, .longer = true, .waits = true),
    ROW(exact, PROMISED, RANKS(2, 6, 1), .who = SECOND),
    ROW(exact, DIFFERENT, RANKS(2, 6, 1), .who = EACH),
    ROW(skewed, REFUSED, RANKS(3, 6, 1), .who = EACH, .waits = true),
    ROW(skewed, DAMAGED, RANKS(3, 6, 3), .who = MIDDLE),
    ROW(skewed, LOST, RANKS(3, 6, 1), .who = SECOND),
    ROW(skewed, STARVED, RANKS(3, 6, 1), .who = EACH, .waits = true),
    ROW(skewed, PROMISED, RANKS(3, 6, 1), .who = SECOND),

    OKTOPK(REFUSED, 0),
    OKTOPK(DAMAGED, 0),
    OKTOPK(LOST, 0),
    OKTOPK(REFUSED, 2),
    OKTOPK(DAMAGED, 2),
    OKTOPK(LOST, 2),
    ROW(balanced, STARVED, RANKS(2, 2, 1), .who = EACH, .before = 2, .waits = true,
        .gone = ARENA | MARKS | IDX_0 | IDX_2),
    ROW(balanced, STARVED, RANKS(7, 7, 1), .who = EACH, .before = 2, .waits = true,
        .gone = ARENA | MARKS | IDX_0 | IDX_1 | IDX_2),
    ROW(gtopk, REFUSED, RANKS(2, 7, 1), .who = EACH, .waits = true),
    ROW(gtopk, DAMAGED, RANKS(2, 7, 1), .who = EVEN, .waits = true),
    ROW(gtopk, LOST, RANKS(2, 7, 1), .who = EACH, .waits = true),
    ROW(gtopk, STARVED, RANKS(2, 7, 1), .who = EACH),

    ROW(lossy, REFUSED, RANKS(4, 4, 1), .who = SECOND, .before = 1, .about = 12),
    ROW(lossy, DAMAGED, RANKS(4, 4, 1), .who = SECOND, .before = 1, .about = 12),
    ROW(lossy, LOST, RANKS(3, 3, 1), .who = SECOND, .before = 1, .about = 12),
    ROW(by_host, REFUSED, RANKS(3, 5, 1), .who = EVEN, .before = 1, .waits = true),
    ROW(by_host, DAMAGED, RANKS(3, 5, 1), .who = SECOND, .before = 1),
    ROW(by_host, LOST, RANKS(3, 5, 1), .who = SECOND, .before = 1),
    ROW(by_host, STARVED, RANKS(3, 5, 1), .who = SECOND, .before = 1,
        .gone = OWN_ERROR | PART_ERROR | IDX_BETWEEN),
    ROW(by_host, PROMISED, RANKS(3, 5, 1), .who = SECOND, .before = 1),
    ROW(by_host_global, REFUSED, RANKS(4, 6, 2), .who = SECOND, .before = 1, .waits = true),
    ROW(by_host_global, DAMAGED, RANKS(4, 4, 1), .who = SECOND, .before = 1),
    ROW(by_host_global, LOST, RANKS(4, 4, 1), .who = SECOND, .before = 1),
    ROW(by_host_global, STARVED, RANKS(4, 4, 1), .who = SECOND, .before = 1,
        .gone = MARKS | OWN_ERROR | PART_ERROR | IDX_0 | IDX_2 | IDX_BETWEEN),
    ROW(by_host_global, PROMISED, RANKS(4, 6, 2), .who = SECOND, .before = 1),

    ROW(lossy, STARVED, RANKS(3, 3, 1), .who = SECOND, .before = 1,
        .gone = ARENA | OWN_ERROR | PART_ERROR),
};

/* A fault at a place. */
struct trial {
    const struct row *row;
    const struct subject *what;
    int size, rank;
    uint64_t send; /* of the call, from 1 */
    size_t byte;
    unsigned char mask;
    unsigned gone;
    int other; /* what differs */
};

static size_t size_of(const struct trial *t)
{
    return t->row->longer ? LONG : t->what->topk ? LOSSY_N : N;
}

static int failures; /* calls that failed somewhere */

static void fail_trial(const struct trial *t, const char *complaint)
{
    fail_msg("%s %s%s, values %d%s, %d ranks, %zu elements, call %d: %s on rank %d, "
             "send %llu, byte %zu ^ %x, gone %x, other %d: %s",
             ss_kind_name(t->what->kind), ss_algorithm_name(t->what->algorithm),
             t->what->topk ? ", top-k" : "", t->what->values, t->what->uneven ? ", uneven" : "",
             t->size, size_of(t), t->row->before + 1, fault_names[t->row->fault], t->rank,
             (unsigned long long)t->send, t->byte, t->mask, t->gone, t->other, complaint);
}

static double timeout_of(enum fault fault)
{
    return fault == DAMAGED ? 1e-3 : fault == LOST ? 0.25 : 0;
}

/* The good calls before. */
static const char *open_trial(struct fault_job *j, const struct trial *t)
{
    const char *wrong = NULL;

    fault_open(j, t->what, t->size, size_of(t), timeout_of(t->row->fault));
    if (t->row->waits)
        ss_sim_set_eager(j->k.job.sim, 0);
    for (int i = 0; i < t->row->before && !wrong; i++)
        wrong = good_call(j);
    return wrong;
}

/* Messages of the rank in such a call without a fault. */
static uint64_t sends_of(const struct trial *t)
{
    static struct fault_job j;
    const char *wrong = open_trial(&j, t);

    uint64_t before = ss_sim_sends(j.k.job.sim, t->rank);
    wrong = wrong ? wrong : good_call(&j);
    uint64_t sends = ss_sim_sends(j.k.job.sim, t->rank) - before;
    const uint64_t *sent = ss_comm_call(j.k.job.comm[0])->f.c.x.phase_sent;
    if (t->what->uneven && t->size > 4 && sent[SS_PHASE_BALANCE] == 0)
        wrong = "nothing was balanced";
    if (t->what->skewed && sent[SS_PHASE_WORDS] == 0)
        wrong = "no borders were found";
    const char *outside = fault_close(&j);
    if (wrong || outside)
        fail_trial(t, wrong ? wrong : outside);
    return sends;
}

static struct ss_buf *buffer_of(struct fault_job *j, const struct trial *t)
{
    struct ss_work *w = &j->k.job.comm[t->rank]->works[0];

    switch (t->gone) {
    case ARENA:
        return &w->arena;
    case MARKS:
        return &w->in_global;
    case OWN_ERROR:
        return &w->own_error;
    case PART_ERROR:
        return &w->part_error;
    case IDX_0:
        return &w->idx[0];
    case IDX_1:
        return &w->idx[1];
    case IDX_2:
        return &w->idx[2];
    default:
        return &w->idx[SS_STREAM_BETWEEN];
    }
}

static void take_memory(struct fault_job *j, const struct trial *t)
{
    if (t->gone)
        ss_buf_free(buffer_of(j, t));
    j->k.job.starve_rank = t->rank;
    j->k.job.starve_after_vote = true;
}

/* Some algorithms do without some of the buffers. */
static bool is_needed(struct fault_job *j, const struct trial *t)
{
    return !t->gone || buffer_of(j, t)->size > 0;
}

/* Another kind, root, type or size: what of it the kind has. */
enum { OTHER_KIND, OTHER_ROOT, OTHER_TYPE, OTHER_SIZE, OTHERS };

static bool can_differ(const struct subject *s, int other)
{
    return (other != OTHER_ROOT || s->kind == SS_KIND_REDUCE) &&
           (other != OTHER_TYPE || s->kind != SS_KIND_ALLGATHER);
}

static void call_differently(struct fault_job *j, const struct trial *t)
{
    struct ss_collective *what = &j->k.what[t->rank];

    what->in = j->k.sent[t->rank].data;
    what->out = what->out ? what->out : j->k.sent[t->rank].data;
    if (t->other == OTHER_KIND)
        what->kind = t->what->kind == SS_KIND_REDUCE ? SS_KIND_ALLGATHER : SS_KIND_REDUCE;
    else if (t->other == OTHER_ROOT)
        what->root = 0;
    else if (t->other == OTHER_TYPE)
        what->type = SS_I32;
    else
        what->n -= (uint64_t)t->size;
}

static void plant(struct fault_job *j, const struct trial *t)
{
    uint64_t at = ss_sim_sends(j->k.job.sim, t->rank) + t->send;
    struct ss_sim_fault fault = {.rank = t->rank};

    if (t->row->fault == REFUSED)
        fault.fail_send = at;
    else if (t->row->fault == LOST)
        fault.lose_send = at;
    else if (t->row->fault == DAMAGED)
        fault.corrupt_send = at;
    else if (t->row->fault == STARVED)
        take_memory(j, t);
    else if (t->row->fault == PROMISED)
        j->k.job.limit_after_vote = true;
    else
        call_differently(j, t);
    fault.corrupt_byte = t->byte;
    fault.corrupt_mask = t->mask;
    ss_sim_set_fault(j->k.job.sim, fault);
}

static void heal(struct fault_job *j, const struct trial *t)
{
    ss_sim_set_fault(j->k.job.sim, (struct ss_sim_fault){.rank = -1});
    j->k.job.starve_after_vote = j->k.job.limit_after_vote = false;
    for (int r = 0; r < t->size; r++)
        j->k.job.mem[r].limit = 0;
}

static const char *named_complaint(const struct fault_job *j, const struct trial *t)
{
    switch (t->row->fault) {
    case LOST:
        return timeouts_complaint(j, t->rank);
    case STARVED:
        return memory_complaint(j, t->rank);
    case DIFFERENT:
        return different_complaint(j);
    default:
        return NULL;
    }
}

/* Damage that no check can see may give another result; all other damage must be an error. */
static const char *judge(struct fault_job *j, const struct trial *t)
{
    const char *wrong = claims_complaint(j);

    wrong = wrong ? wrong : named_complaint(j, t);
    heal(j, t);
    if (wrong)
        return wrong;
    if (fault_any(j)) {
        failures++;
        return t->row->fault == PROMISED ? "what the vote promised is not there"
                                         : broken_complaint(j);
    }
    if (t->row->fault == DAMAGED)
        return NULL;
    wrong = success_complaint(j);
    return wrong ? wrong : good_call(j);
}

static void run(const struct trial *t)
{
    static struct fault_job j;
    const char *wrong = open_trial(&j, t);

    if (!wrong && is_needed(&j, t)) {
        fault_prepare(&j);
        plant(&j, t);
        wrong = kind_run(&j.k) ? judge(&j, t) : "a call in which something goes wrong does not end";
    }
    const char *outside = fault_close(&j);
    if (wrong || outside)
        fail_trial(t, wrong ? wrong : outside);
}

/* Exact: each of these bytes with each of the masks; lossy: three of them by turns. */
static void run_damaged(struct trial *t)
{
    static const size_t bytes[] = {0, 1, 2, 3, 4, 8, 9, 12, 13, 16, 19, 40, 1000003};
    static const unsigned char masks[] = {0x10, 0x01, 0x80, 0xff};
    enum { BYTES = sizeof bytes / sizeof bytes[0], MASKS = sizeof masks };
    size_t first = t->what->topk ? mix(t->send) % (BYTES * MASKS) : 0;
    size_t runs = t->what->topk ? 3 : BYTES * MASKS;

    for (size_t i = 0; i < runs; i++) {
        size_t at = (first + i * 17) % (BYTES * MASKS);
        t->byte = bytes[at / MASKS];
        t->mask = masks[at % MASKS];
        run(t);
    }
}

static void run_sends(struct trial *t)
{
    uint64_t sends = sends_of(t), step = t->row->about ? 1 + sends / t->row->about : 1;

    for (t->send = 1; t->send <= sends; t->send += step)
        if (t->row->fault == DAMAGED)
            run_damaged(t);
        else
            run(t);
}

static void run_starved(struct trial *t)
{
    if (t->row->gone == 0)
        run(t);
    for (t->gone = ARENA; t->gone <= IDX_BETWEEN; t->gone <<= 1)
        if (t->row->gone & t->gone)
            run(t);
    t->gone = 0;
}

static void run_different(struct trial *t)
{
    for (t->other = 0; t->other < OTHERS; t->other++)
        if (can_differ(t->what, t->other))
            run(t);
}

static void run_rank(struct trial *t)
{
    if (t->row->fault == STARVED)
        run_starved(t);
    else if (t->row->fault == DIFFERENT)
        run_different(t);
    else if (t->row->fault == PROMISED)
        run(t);
    else
        run_sends(t);
}

static bool is_hit(enum who who, int size, int rank)
{
    return who == EACH || (who == EVEN && rank % 2 == 0) || (who == MIDDLE && rank == size / 2) ||
           (who == SECOND && rank == 1);
}

/* Returns true if all calls may succeed: a measurement survives the fault, or the plan may choose
 * the MPI library's call. */
static bool may_pass(const struct trial *t)
{
    return t->row->fault == PROMISED || t->what->measured || t->what->algorithm == SS_AUTO;
}

static void run_row(const struct row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        struct trial t = {.row = row, .what = &row->what[i]};
        failures = 0;
        for (t.size = row->least; t.size <= row->most; t.size += row->step)
            for (t.rank = 0; t.rank < t.size; t.rank++)
                if (is_hit(row->who, t.size, t.rank))
                    run_rank(&t);
        if (failures == 0 && !may_pass(&t))
            fail_trial(&t, "no call has failed");
    }
}

static void run_fault(enum fault fault)
{
    for (size_t i = 0; i < sizeof matrix / sizeof matrix[0]; i++)
        if (matrix[i].fault == fault)
            run_row(&matrix[i]);
}

static void a_refused_send_ends_on_all_ranks(void **state)
{
    (void)state;
    run_fault(REFUSED);
}

static void a_damaged_message_ends_on_all_ranks(void **state)
{
    (void)state;
    run_fault(DAMAGED);
}

static void a_lost_message_ends_by_timeout_that_names_rank_peer_phase_and_call(void **state)
{
    (void)state;
    run_fault(LOST);
}

static void a_rank_short_of_memory_after_the_vote_fails_all(void **state)
{
    (void)state;
    run_fault(STARVED);
}

/* Whatever other threads take from the pool meanwhile. */
static void memory_promised_by_the_vote_is_there(void **state)
{
    (void)state;
    run_fault(PROMISED);
}

static void ranks_in_different_calls_are_told(void **state)
{
    (void)state;
    run_fault(DIFFERENT);
}

static bool is_in_matrix(enum ss_kind kind, int algorithm, int values, enum fault fault)
{
    for (size_t i = 0; i < sizeof matrix / sizeof matrix[0]; i++)
        for (size_t w = 0; w < matrix[i].count; w++) {
            const struct subject *s = &matrix[i].what[w];
            if (matrix[i].fault == fault && s->kind == kind && (int)s->values == values &&
                (kind != SS_KIND_ALLREDUCE || (int)s->algorithm == algorithm))
                return true;
        }
    return false;
}

/* A new one is to be entered above. */
static void every_collective_algorithm_and_value_type_meets_every_fault(void **state)
{
    (void)state;
    for (int fault = REFUSED; fault <= STARVED; fault++) {
        for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
            assert_true(is_in_matrix((enum ss_kind)kind, 0, SS_VALUES_SAME, (enum fault)fault));
        for (int a = SS_AUTO + 1; a < SS_DENSE; a++)
            for (int values = SS_WHOLE_ALGORITHMS >> a & 1;
                 values < (a == SS_TWO_LEVEL ? 1 : SS_VALUE_TYPES); values++)
                assert_true(is_in_matrix(SS_KIND_ALLREDUCE, a, values, (enum fault)fault));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_algorithm_and_value_type_meets_every_fault),
        cmocka_unit_test(a_refused_send_ends_on_all_ranks),
        cmocka_unit_test(a_damaged_message_ends_on_all_ranks),
        cmocka_unit_test(a_lost_message_ends_by_timeout_that_names_rank_peer_phase_and_call),
        cmocka_unit_test(a_rank_short_of_memory_after_the_vote_fails_all),
        cmocka_unit_test(memory_promised_by_the_vote_is_there),
        cmocka_unit_test(ranks_in_different_calls_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
