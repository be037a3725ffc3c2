/* The volume of the O(k) sparse allreduce (Ok-Topk, equations 1 to 3). */
#include "tests/unit/support/mailbox.h"
#include "tests/unit/support/oktopk_job.h"

enum { HEADER = 16 };

/* Over the ranks, max(sent, received) of a phase in words of 4 bytes, headers of its messages left
 * out. Raw indices: an entry of 4 bytes is two words. */
static double words(const struct training *t, enum ss_phase phase, double messages)
{
    double most = 0;

    for (int r = 0; r < t->job.size; r++) {
        double sent = (double)call_of(t, r)->f.c.x.phase_sent[phase];
        double received = (double)call_of(t, r)->f.c.x.phase_received[phase];
        most = fmax(most, fmax(sent, received) - HEADER * messages);
    }
    return most / 4;
}

struct volume {
    double reduce, balance, gather; /* most of any call after the first `settle` */
    double mean;                    /* of their sum */
    double k;
};

static struct volume measure(struct training *t, int steps, int settle)
{
    struct volume v = {.k = (double)ss_warmup_k(t->n, t->job.settings[0].density, 0, 0)};
    double peers = t->job.size - 1;

    for (int s = 0; s < steps; s++) {
        draw(t, 1);
        training_step(t, false);
        if (s < settle)
            continue;
        double reduce = words(t, SS_PHASE_REDUCE, peers);
        double balance = words(t, SS_PHASE_BALANCE, 0);
        double gather = words(t, SS_PHASE_GATHER, peers);
        v.reduce = fmax(v.reduce, reduce);
        v.balance = fmax(v.balance, balance);
        v.gather = fmax(v.gather, gather);
        v.mean += (reduce + balance + gather) / (steps - settle);
    }
    return v;
}

static struct volume volume_of(enum place place, int size, size_t n, struct ss_settings settings)
{
    static struct training t;

    settings.coding = SS_CODING_U32;
    training_open(&t, size, SS_F32, n, 0, settings);
    t.pattern = (int)place;
    struct volume v = measure(&t, 24, 8);
    assert_int_equal(t.native, 0);
    training_close(&t);
    print_message("# %d ranks, pattern %d: exchange %.2f k, balancing %.2f k, allgather %.2f k, "
                  "all %.2f k (bound 6 k (P-1)/P = %.2f k)\n",
                  size, place, v.reduce / v.k, v.balance / v.k, v.gather / v.k, v.mean / v.k,
                  6.0 * (size - 1) / size);
    return v;
}

/* Equation 3: 2k (P-1)/P for the exchange, and 4k (P-1)/P for balancing and allgather. If the large
 * gradients of a rank lie in another rank's part, it sends all of them: 2k. */
static void the_volume_is_within_six_k(void **state)
{
    (void)state;
    for (int size = 2; size <= 16; size *= 2)
        for (int place = UNIFORM; place <= OPPOSITE; place++) {
            struct volume v = volume_of((enum place)place, size, 100000, settings_of(0.02));
            double share = (size - 1.0) / size;
            assert_true(v.mean <= 4 * v.k * share + 2 * v.k * (place == OPPOSITE ? 1 : share));
        }
}

/* k entries of each rank, evenly spread, at the same places on all. */
struct crowd {
    int size;
    size_t n, k;
    struct mailbox *boxes;
    struct ss_comm **comm;
    float *out; /* n of each rank, reduced in place */
};

static void crowd_call(const struct crowd *w)
{
    int left = w->size;
    bool *ended = calloc((size_t)w->size, sizeof *ended);

    for (int r = 0; r < w->size; r++) {
        float *out = w->out + (size_t)r * w->n;
        memset(out, 0, w->n * sizeof *out);
        for (size_t i = 0; i < w->k; i++)
            out[i * w->n / w->k] = 1 + (float)((i + (size_t)r) % 64) / 64;
        assert_int_equal(ss_call_start(ss_comm_call(w->comm[r]), w->comm[r], &ss_host, SS_F32,
                                       SS_SUM, NULL, out, w->n, 0),
                         SS_PENDING);
    }
    for (int turn = 0; left > 0 && turn < 100000; turn++)
        for (int r = 0; r < w->size; r++) {
            if (ended[r])
                continue;
            int status = ss_call_step(ss_comm_call(w->comm[r]));
            if (status == SS_PENDING)
                continue;
            assert_int_equal(status, SS_OK);
            ended[r] = true;
            left--;
        }
    assert_int_equal(left, 0);
    for (int r = 1; r < w->size; r++)
        assert_memory_equal(w->out, w->out + (size_t)r * w->n, w->n * sizeof *w->out);
    free(ended);
}

/* Words of word exchanges between all ranks, most of any rank. */
static double crowd_agreed(const struct crowd *w)
{
    double most = 0;

    for (int r = 0; r < w->size; r++) {
        const struct ss_call *c = ss_comm_call(w->comm[r]);
        most = fmax(most, (double)c->f.c.x.phase_sent[SS_PHASE_WORDS]);
        most = fmax(most, (double)c->f.c.x.phase_received[SS_PHASE_WORDS]);
    }
    return most / 4;
}

/* Words of entries in exchange and allgather, most of any rank in each. */
static double crowd_words(const struct crowd *w)
{
    double most[2] = {0, 0}, headers = HEADER * (w->size - 1.0);

    for (int r = 0; r < w->size; r++) {
        const struct ss_call *c = ss_comm_call(w->comm[r]);
        for (int i = 0; i < 2; i++) {
            int phase = i == 0 ? SS_PHASE_REDUCE : SS_PHASE_GATHER;
            most[i] = fmax(most[i], fmax((double)c->f.c.x.phase_sent[phase],
                                         (double)c->f.c.x.phase_received[phase]) -
                                        headers);
        }
        assert_int_equal(c->f.c.x.phase_sent[SS_PHASE_BALANCE], 0);
    }
    return (most[0] + most[1]) / 4;
}

static double words_of_a_crowd(int size, size_t n, size_t k, double *agreed)
{
    struct crowd w = {.size = size, .n = n, .k = k, .boxes = mailboxes_open(size)};
    struct ss_settings settings = settings_of((double)k / (double)n);
    struct ss_mem mem = {0};
    struct ss_stats stats;
    struct ss_rules *rules;
    char error[200];

    assert_int_equal(ss_rules_parse("count=1:,site=*:calls=1", true, &rules, error, sizeof error),
                     SS_OK);
    settings.tensors.include = rules;
    settings.coding = SS_CODING_U32;
    ss_stats_init(&stats, 0);
    w.comm = calloc((size_t)size, sizeof *w.comm);
    w.out = calloc((size_t)size * n, sizeof *w.out);
    for (int r = 0; r < size; r++)
        w.comm[r] = ss_comm_create(&w.boxes[r].transport, &settings, &mem, &stats, "crowd");
    crowd_call(&w);
    crowd_call(&w);
    double words_sent = crowd_words(&w);
    *agreed = crowd_agreed(&w);
    for (int r = 0; r < size; r++)
        ss_comm_free(w.comm[r]);
    assert_int_equal(atomic_load(&mem.used), 0);
    free(w.comm);
    free(w.out);
    ss_stats_free(&stats);
    mailboxes_close(w.boxes);
    ss_rules_free(rules);
    return words_sent;
}

/* 4 k (P-1)/P in all where things are balanced, however many ranks there are; the counts that the
 * ranks agree on in a call that keeps its thresholds are a hundred words in each of log P rounds.
 */
static void the_volume_is_flat_from_8_to_1024_ranks(void **state)
{
    static const int sizes[] = {8, 64, 512, 1024};
    enum { PLACES_OF_ALL = 16384, K = 4096 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double agreed, all = words_of_a_crowd(sizes[i], PLACES_OF_ALL, K, &agreed);
        double share = (sizes[i] - 1.0) / sizes[i];
        print_message("# %d ranks: %.3f k words, %.3f k (P-1)/P; word exchanges %.0f words\n",
                      sizes[i], all / K, all / K / share, agreed);
        assert_true(agreed <= 110 * log2(sizes[i]));
        assert_true(all <= 4.6 * K * share);
        assert_true(all >= 3.9 * K * share);
    }
}

/* Packed indices: at this density an entry takes 1.26 words. Per entry that a rank claims and that
 * the global set holds, 1.3 words each, whatever of it is sent or received; word exchanges left
 * out. */
static void a_steady_call_takes_2_6_words_per_entry(void **state)
{
    static struct training t;
    double sum = 0, entries = 0, agreed = 0, k = 2048;

    (void)state;
    struct ss_settings settings = settings_of(0.0078125);
    settings.tensors.threshold_period = 32;
    settings.repartition_period = 64;
    training_open(&t, 8, SS_F32, 262144, 0, settings);
    for (int s = 0; s < 16; s++) {
        draw(&t, 1);
        training_step(&t, false);
        entries += (double)call_of(&t, 0)->f.vote.ballot.nnz_max + (double)selected(&t);
        sum += words(&t, SS_PHASE_REDUCE, 0) + words(&t, SS_PHASE_GATHER, 0);
        agreed += words(&t, SS_PHASE_WORDS, 0) / 16;
    }
    print_message("# %.2f words per entry, %.0f in word exchanges\n", 2 * sum / entries, agreed);
    assert_true(2 * sum <= 2.6 * entries);
    assert_true(sum / 16 <= 2.6 * 4 * k / 3);
    training_close(&t);
}

/* Between two repartitions the gradients move elsewhere: that call costs more, and the next
 * partition makes it good. */
static void a_shift_costs_until_the_next_partition(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(0.01);
    double shifted = 0, settled = 0;

    (void)state;
    settings.coding = SS_CODING_U32;
    training_open(&t, 8, SS_F32, 40000, 0, settings);
    for (int s = 0; s < 40; s++) {
        t.pattern = s < 20 ? FRONT : OPPOSITE;
        draw(&t, 1);
        training_step(&t, false);
        double reduce = words(&t, SS_PHASE_REDUCE, 7);
        if (s >= 20 && s < 32) /* partitions: before calls 1, 17, 33 */
            shifted = fmax(shifted, reduce);
        if (s >= 34)
            settled = fmax(settled, reduce);
    }
    print_message("# exchange after a shift %.0f words, after the next partition %.0f\n", shifted,
                  settled);
    assert_true(settled < 0.6 * shifted);
    expect_conservation(&t, "oktopk");
    training_close(&t);
}

/* Elements that kernels have looked through for entries. */
static size_t scanned;

static ss_ticket count_scan(struct ss_backend *p, enum ss_type type, enum ss_op op, const void *src,
                            size_t n, uint32_t base, uint32_t *idx, void *val, size_t capacity,
                            struct ss_scan *out)
{
    scanned += n;
    return ss_host.ops->scan(p, type, op, src, n, base, idx, val, capacity, out);
}

/* After what is looked through before the vote. */
static int counted_step(void *ctx, int rank)
{
    static struct ss_backend_ops counting;
    static struct ss_backend backend = {&counting};
    struct sim_job *job = ctx;
    int status = job_step(ctx, rank);

    counting = *ss_host.ops;
    counting.scan = count_scan;
    ss_comm_call(job->comm[rank])->f.c.x.backend = &backend;
    return status;
}

static void counted_call(struct training *t)
{
    struct sim_job *job = &t->job;

    scanned = 0;
    job->n = t->n;
    job->type = t->type;
    job->op = SS_SUM;
    memset(job->started, 0, sizeof job->started);
    for (int r = 0; r < job->size; r++)
        job->in[r] = t->gradient[r];
    assert_true(ss_sim_run(job->sim, counted_step, job, job->status, 100000000));
    for (int r = 0; r < job->size; r++)
        ss_call_end(ss_comm_call(job->comm[r]), 1e-3);
    t->steps++;
}

/* All that is large moves into one part, until the next partition. */
static void a_part_that_stays_full_is_extracted_once(void **state)
{
    static struct training t;
    size_t again = 0;

    (void)state;
    training_open(&t, 4, SS_F32, N, 0, settings_of(0.01));
    for (int call = 0; call < 14; call++) {
        t.pattern = call == 0 ? UNIFORM : FRONT;
        draw(&t, call == 0 ? 1 : 100);
        counted_call(&t);
        assert_int_equal(t.job.status[0], SS_OK);
        again += scanned > N;
    }
    assert_true(again >= 1 && again <= 3); /* else in every call */
    training_close(&t);
}

/* Before it is registered, say: oktopk serves no exact call, so the plan chooses. The scan before
 * the vote stops extracting where its room ends. */
static void a_dense_exact_input_is_not_extracted(void **state)
{
    static struct training t;

    (void)state;
    struct ss_settings settings = settings_of(0.01);
    settings.tensors.identity.steps = 3;
    training_open(&t, 4, SS_F32, N, 0, settings);
    for (int call = 0; call < 2; call++) {
        draw(&t, 1);
        counted_call(&t);
        assert_int_equal(t.job.status[0], SS_NATIVE);
        assert_int_equal(scanned, 0); /* nothing behind the vote */
        for (int r = 0; r < 4; r++) {
            assert_int_equal(call_of(&t, r)->f.c.scan.nnz, N);
            assert_true(call_of(&t, r)->f.c.own.nnz <= ss_plan_own_least(N) + 16); /* whole lines */
        }
    }
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_that_stays_full_is_extracted_once),
        cmocka_unit_test(a_dense_exact_input_is_not_extracted),
        cmocka_unit_test(the_volume_is_within_six_k),
        cmocka_unit_test(a_steady_call_takes_2_6_words_per_entry),
        cmocka_unit_test(the_volume_is_flat_from_8_to_1024_ranks),
        cmocka_unit_test(a_shift_costs_until_the_next_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
