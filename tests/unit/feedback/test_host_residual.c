/* Top-k with one residual per host: nothing is lost, all ranks get the same bits, and a job of
 * several ranks per host acts like a job of one rank per host on the hosts' sums. */
#include <stdio.h>

#include "core/coll/algorithms.h"
#include "core/tensor/residual.h"
#include "tests/unit/support/training.h"

enum { N = 1100, STEPS = 7 };

static const char *const layouts[] = {
    "1122",   "1212",     "112",       "111222",    "123123",
    "111223", "1223",     "12222",     "11223344",  "111112",
    "112131", "11112222", "123412341", "123123123", "1111222233334444"};
static const enum ss_algorithm algorithms[] = {SS_AUTO, SS_ONE_LEVEL_LIST(SS_CHOICE_ID)
                                                            SS_WHOLE_LIST(SS_CHOICE_ID)};
#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static struct ss_settings settings_of(enum ss_algorithm algorithm)
{
    struct ss_settings settings = training_settings(algorithm);

    settings.density = SS_WHOLE_ALGORITHMS >> algorithm & 1u ? 1 : 0.03;
    settings.beta = 1e-6; /* sparse is faster */
    settings.aggregation = SS_AGGREGATION_ON;
    settings.tensors.threshold_period = 4;
    return settings;
}

static void open_on(struct training *t, const char *layout, enum ss_type type, uint64_t slice,
                    uint64_t seed, struct ss_settings settings)
{
    training_open(t, (int)strlen(layout), type, N, seed, settings);
    job_set_hosts(&t->job, layout, slice);
}

/* Values between -1 and 1, a few of them large. */
static double value(uint64_t step, uint64_t rank, uint64_t i)
{
    const uint64_t h = mix(step * 1000003 + rank * 7919 + i * 104729 + 1);
    const double u = (double)(h >> 11) / 9007199254740992.0 * 2 - 1;

    return u * (h % 16 == 0 ? 1 : 0.05);
}

static void draw(struct training *t, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            put(t->type, t->gradient[r], i, value(step, (uint64_t)r, i));
}

static void lossy_steps(struct training *t, uint64_t steps)
{
    for (uint64_t s = 0; s < steps; s++) {
        draw(t, s);
        training_step(t, false);
    }
}

static const struct ss_tensor *tensor_of(const struct training *t, int rank)
{
    return ss_tensors_first(t->job.comm[rank]->tensors);
}

static enum ss_algorithm between(const struct training *t, int rank)
{
    return ss_comm_call(t->job.comm[rank])->f.c.voted.between;
}

/* An algorithm that keeps the largest entries runs between hosts if it is forced and no rank owns
 * several slices. */
static void expect_two_levels(const struct training *t)
{
    const enum ss_algorithm forced = t->job.settings[0].algorithm;
    const struct ss_layout *l = t->job.layout;
    const bool one = ss_layout_most_slices(l, ss_layout_slices(l, t->n)) == 1;

    for (int r = 0; r < t->job.size; r++) {
        assert_true(tensor_of(t, r)->range.by_host);
        assert_int_equal(ss_call_algorithm(ss_comm_call(t->job.comm[r])), SS_TWO_LEVEL);
        if (!ss_keeps_global(forced))
            continue;
        if (one)
            assert_int_equal(between(t, r), forced);
        else
            assert_false(ss_keeps_global(between(t, r)));
    }
}

/* ---- nothing is lost ---- */

static void nothing_is_lost_on_any_layout(void **state)
{
    static struct training t;
    uint64_t number = 0;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++)
        for (size_t a = 0; a < LENGTH(algorithms); a++)
            for (int values = SS_WHOLE_ALGORITHMS >> algorithms[a] & 1; values < SS_VALUE_TYPES;
                 values++) {
                const uint64_t h = mix(++number);
                struct ss_settings settings = settings_of(algorithms[a]);
                char text[80];

                settings.value_type = (enum ss_values)values;
                snprintf(text, sizeof text, "%s, %s, values %s", layouts[l],
                         ss_algorithm_name(algorithms[a]), ss_value_type_name(settings.value_type));
                open_on(&t, layouts[l], h & 2 ? SS_F64 : SS_F32, h & 4 ? 64 : 256, h & 8 ? h : 0,
                        settings);
                for (uint64_t s = 0; s < STEPS; s++) {
                    draw(&t, s);
                    training_step(&t, s % 3 == 2);
                    if (t.job.status[0] == SS_OK)
                        expect_two_levels(&t);
                }
                if (t.sparse < STEPS - 1)
                    fail_msg("%s: %d of %d calls sparse", text, t.sparse, STEPS);
                expect_conservation(&t, text);
                if (h & 16 && settings.value_type == SS_VALUES_SAME) {
                    assert_true(training_drain(&t, 3000) < 3000);
                    expect_conservation(&t, text);
                }
                training_close(&t);
            }
}

/* ---- odd vectors and options ---- */

static struct ss_settings odd_settings(enum ss_algorithm algorithm, int form)
{
    struct ss_settings s = settings_of(algorithm);

    switch (form) {
    case 0:
        s.k = 4;
        s.bucket = 64;
        break;
    case 1:
        s.density = 1;
        break;
    case 2:
        s.warmup_steps = 3;
        break;
    case 3:
        s.guard = SS_GUARD_EXACT;
        s.density = 0.001;
        break;
    case 4: /* calibrates in the first call */
        s.alpha = s.beta = -1;
        break;
    default:
        s.value_type = SS_VALUES_Q4;
        break;
    }
    return s;
}

static void expect_agreement(const struct training *t, const char *what)
{
    const struct ss_tensor *first = tensor_of(t, 0);

    for (int r = 1; r < t->job.size; r++) {
        const struct ss_tensor *other = tensor_of(t, r);
        if (other->state != first->state || other->rest != first->rest ||
            other->guarding.checks != first->guarding.checks ||
            other->guarding.far != first->guarding.far)
            fail_msg("%s: rank %d has another tensor than rank 0", what, r);
    }
}

/* Slices without elements, ranks without slices, vectors shorter than a part. */
static void short_vectors_and_other_options_lose_nothing(void **state)
{
    enum { FORMS = 6, ODD_STEPS = 9 };
    static const size_t lengths[] = {1, 17, 100};
    static const char *const of[] = {"12222", "111112", "11123"};
    static struct training t;
    uint64_t number = 0;

    (void)state;
    for (size_t n = 0; n < LENGTH(lengths); n++)
        for (size_t l = 0; l < LENGTH(of); l++)
            for (int form = 0; form < FORMS; form++) {
                const enum ss_algorithm a = algorithms[++number % LENGTH(algorithms)];
                char text[80];

                snprintf(text, sizeof text, "%zu elements, %s, %s, form %d", lengths[n], of[l],
                         ss_algorithm_name(a), form);
                training_open(&t, (int)strlen(of[l]), form % 2 ? SS_F64 : SS_F32, lengths[n], 0,
                              odd_settings(a, form));
                job_set_hosts(&t.job, of[l], n % 2 ? 1 : 16);
                for (uint64_t s = 0; s < ODD_STEPS; s++) {
                    draw(&t, s);
                    training_step(&t, s % 3 == 2);
                    expect_agreement(&t, text);
                }
                expect_conservation(&t, text);
                training_close(&t);
            }
}

/* ---- like one rank per host ---- */

/* With one slice, the results are those of a job whose ranks are the hosts and whose inputs are the
 * hosts' sums, bit for bit. */
static void several_ranks_per_host_act_like_one(void **state)
{
    static const char *const of[] = {"1122", "1212", "111222", "11223344", "11223"};
    static struct training t, one;

    (void)state;
    for (size_t l = 0; l < LENGTH(of); l++)
        for (size_t a = 1; a < LENGTH(algorithms); a++) {
            open_on(&t, of[l], SS_F32, N, 0, settings_of(algorithms[a]));
            training_open(&one, t.job.layout->hosts, SS_F32, N, 0, settings_of(algorithms[a]));
            for (uint64_t s = 0; s < STEPS; s++) {
                draw(&t, s);
                for (int h = 0; h < one.job.size; h++)
                    memset(one.gradient[h], 0, N * sizeof(float));
                for (int r = 0; r < t.job.size; r++)
                    for (size_t i = 0; i < N; i++)
                        ((float *)one.gradient[t.job.layout->host[r]])[i] +=
                            ((float *)t.gradient[r])[i];
                training_step(&t, false);
                training_step(&one, false);
                assert_int_equal(t.job.status[0], one.job.status[0]);
                if (t.job.status[0] == SS_OK)
                    assert_memory_equal(t.job.out[0], one.job.out[0], N * sizeof(float));
            }
            assert_true(t.sparse >= STEPS - 1);
            training_close(&t);
            training_close(&one);
        }
}

/* Returns the bytes that the busiest host sends to others in a call, once thresholds and parts
 * are known. */
static double bytes_between(const char *layout, size_t n, enum ss_algorithm algorithm)
{
    static struct training t;
    struct ss_settings settings = settings_of(algorithm);
    uint64_t sent[SIM_JOB_RANKS] = {0}, most = 0;

    settings.density = 0.015;
    settings.tensors.threshold_period = 32;
    training_open(&t, (int)strlen(layout), SS_F32, n, 0, settings);
    job_set_hosts(&t.job, layout, n / 4);
    ss_sim_set_hosts(t.job.sim, t.job.layout, 1e-6, 1e-10);
    for (uint64_t call = 0; call < 6; call++) {
        draw(&t, call);
        for (int r = 0; r < t.job.size; r++)
            sent[r] = ss_sim_bytes_outside(t.job.sim, r);
        training_call(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
    }
    for (int h = 0; h < t.job.layout->hosts; h++) {
        uint64_t of_host = 0;
        for (int r = 0; r < t.job.size; r++)
            if (t.job.layout->host[r] == h)
                of_host += ss_sim_bytes_outside(t.job.sim, r) - sent[r];
        most = of_host > most ? of_host : most;
    }
    training_close(&t);
    return (double)most;
}

/* Bytes between hosts are those of one rank per host within 10 %, votes and word exchanges
 * included, whatever the number of ranks. */
static void bytes_between_hosts_do_not_grow_with_the_ranks(void **state)
{
    static const char *const of[] = {"11223344", "1111222233334444"};
    const size_t n = 262144; /* a host sends some 30 kB */

    (void)state;
    for (int a = SS_OKTOPK; a < SS_DENSE; a++) {
        const double one = bytes_between("1234", n, (enum ss_algorithm)a);
        for (size_t l = 0; l < LENGTH(of); l++) {
            const double several = bytes_between(of[l], n, (enum ss_algorithm)a);
            if (several > 1.1 * one)
                fail_msg("%s, %s: %.0f bytes, %.0f with one rank per host", of[l],
                         ss_algorithm_name((enum ss_algorithm)a), several, one);
        }
    }
}

/* By the cost model, an algorithm that keeps the largest entries runs between hosts on a slow
 * network. */
static void a_slow_network_gets_few_entries(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_AUTO);

    (void)state;
    settings.density = 0.01;
    settings.alpha = 1e-5;
    settings.beta = 1e-7;
    training_open(&t, 8, SS_F32, 160000, 0, settings);
    job_set_hosts(&t.job, "11223344", 16384);
    draw(&t, 0);
    training_step(&t, false);
    assert_int_equal(t.job.status[0], SS_OK);
    expect_two_levels(&t);
    for (int r = 0; r < t.job.size; r++)
        assert_true(ss_keeps_global(between(&t, r)));
    training_close(&t);
}

/* ---- oktopk's state ---- */

/* The slices have states of their own. If that of one rank is lost, the ranks begin anew. */
static void ranks_with_unlike_states_begin_anew(void **state)
{
    static struct training t;

    (void)state;
    open_on(&t, "112233", SS_F32, 64, 0, settings_of(SS_OKTOPK));
    for (uint64_t s = 0; s < 6; s++) {
        struct ss_tensor *lost = ss_tensors_first(t.job.comm[3]->tensors);
        draw(&t, s);
        if (s == 3)
            ss_agreed_forget(&lost->agreed);
        training_step(&t, false);
        expect_two_levels(&t);
        for (int r = 0; r < t.job.size; r++)
            assert_int_equal(tensor_of(&t, r)->agreed.calls, s < 3 ? s + 1 : s - 2);
    }
    assert_true(tensor_of(&t, 0)->agreed.global.magnitude !=
                tensor_of(&t, 1)->agreed.global.magnitude);
    expect_conservation(&t, "states");
    training_close(&t);
}

/* ---- not finite ---- */

static void expect_native_and_untouched(struct training *t, enum ss_reason reason)
{
    static double before[SIM_JOB_RANKS][N];

    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < N; i++)
            before[r][i] = training_kept(t, r, i);
    training_call(t, false);
    for (int r = 0; r < t->job.size; r++) {
        assert_int_equal(t->job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(t->job.comm[r])), reason);
        assert_false(ss_call_joined(ss_comm_call(t->job.comm[r])));
        for (size_t i = 0; i < N; i++)
            assert_true(fabs(training_kept(t, r, i) - before[r][i]) <=
                        1e-6 * fabs(before[r][i]) + 1e-6);
    }
}

/* An input that is not finite, and finite inputs of one host whose sum is not. */
static void what_is_not_finite_goes_to_the_mpi_library(void **state)
{
    static struct training t;

    (void)state;
    open_on(&t, "1122", SS_F32, 64, 0, settings_of(SS_RING));
    lossy_steps(&t, 3);
    draw(&t, 3);
    put(SS_F32, t.gradient[3], 5, (double)NAN);
    expect_native_and_untouched(&t, SS_WHY_NOT_FINITE);
    draw(&t, 4);
    put(SS_F32, t.gradient[0], 900, 3e38);
    put(SS_F32, t.gradient[1], 900, 3e38);
    expect_native_and_untouched(&t, SS_WHY_NOT_FINITE);
    for (uint64_t s = 5; s < 8; s++) {
        draw(&t, s);
        training_step(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
    }
    training_close(&t);
}

/* While a tensor rests, a rank that holds nothing of the residual looks at its input, too: what
 * joined the sum would be lost with it. */
static void a_rank_that_holds_nothing_says_that_its_input_is_not_finite(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_AUTO);

    (void)state;
    open_on(&t, "1122", SS_F32, N, 0, settings); /* one slice */
    for (uint64_t s = 0; s < 8; s++) {
        draw(&t, s);
        for (int r = 0; r < 4 && s >= 4; r++) {
            t.job.settings[r].beta = 1e-15; /* dense is faster */
            for (size_t i = 0; i < N; i++)  /* a sixteenth of the residual joins a small input */
                ((float *)t.gradient[r])[i] *= 1e-4f;
        }
        training_step(&t, false);
    }
    assert_int_equal(tensor_of(&t, 1)->range.n, 0);
    assert_true(tensor_of(&t, 0)->rest != SS_AWAKE && !training_drained(&t));
    put(SS_F32, t.gradient[1], 5, (double)NAN);
    expect_native_and_untouched(&t, SS_WHY_NOT_FINITE);
    training_close(&t);
}

/* Callbacks of the program send a nonblocking call to the MPI library after the first vote, when no
 * rank has looked at the sums yet. */
static void before_a_sum_is_looked_at_nothing_joins_it(void **state)
{
    static struct training t;

    (void)state;
    open_on(&t, "1122", SS_F32, 64, 0, settings_of(SS_RING));
    lossy_steps(&t, 3);
    draw(&t, 3);
    put(SS_F32, t.gradient[3], 5, (double)NAN);
    for (int r = 0; r < 4; r++)
        t.job.comm[r]->caller = (struct ss_caller){.callbacks = true, .nonblocking = true};
    expect_native_and_untouched(&t, SS_WHY_CALLBACKS);
    training_close(&t);
}

/* ---- memory ---- */

/* A rank without room for the sum or for its claims: the call is the MPI library's on all ranks,
 * and nothing is lost. */
static void a_rank_without_memory_sends_the_call_to_the_mpi_library(void **state)
{
    static struct training t;

    (void)state;
    open_on(&t, "1122", SS_F32, 64, 0, settings_of(SS_RING));
    for (uint64_t s = 0; s < 8; s++) {
        if (s == 2 || s == 4) {
            t.job.limit_after_vote = s == 2;     /* the claims have no room */
            t.job.mem[1].limit = s == 4 ? 1 : 0; /* nor has the sum */
            ss_work_free(&t.job.comm[1]->works[0]);
        }
        draw(&t, s);
        training_step(&t, false);
        assert_int_equal(t.job.status[0], s == 2 || s == 4 ? SS_NATIVE : SS_OK);
        t.job.limit_after_vote = false;
        for (int r = 0; r < t.job.size; r++)
            t.job.mem[r].limit = 0;
    }
    expect_conservation(&t, "memory");
    training_close(&t);
}

/* ---- rest ---- */

/* Where dense is faster the tensor rests, and its residual is sent. */
static void a_resting_tensor_sends_its_residual(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_AUTO);

    (void)state;
    open_on(&t, "111222", SS_F32, 64, 0, settings);
    for (uint64_t s = 0; s < 4; s++) {
        draw(&t, s);
        training_step(&t, false);
    }
    assert_true(t.sparse > 0);
    for (int r = 0; r < t.job.size; r++)
        t.job.settings[r].beta = 1e-15;
    for (uint64_t s = 4; s < 60; s++) {
        draw(&t, s);
        training_step(&t, s & 1);
    }
    assert_int_equal(t.job.status[0], SS_NATIVE);
    assert_true(training_drained(&t));
    expect_conservation(&t, "rest");
    training_close(&t);
}

/* ---- cost ---- */

/* The plan's bytes are those that the busiest rank sends, within 15 %. */
static void the_plan_predicts_the_bytes(void **state)
{
    static const char *const of[] = {"1122", "111222", "11223344", "11112222"};
    static struct training t;

    (void)state;
    for (size_t l = 0; l < LENGTH(of); l++)
        for (size_t a = 1; a < LENGTH(algorithms); a++) {
            struct ss_settings settings = settings_of(algorithms[a]);
            double most = 0;

            training_open(&t, (int)strlen(of[l]), SS_F32, 40000, 0, settings);
            job_set_hosts(&t.job, of[l], 64);
            lossy_steps(&t, 3);
            for (int r = 0; r < t.job.size; r++)
                most = fmax(most, (double)ss_comm_call(t.job.comm[r])->f.c.x.bytes_sent);
            const double predicted = ss_comm_call(t.job.comm[0])->plan.bytes[SS_TWO_LEVEL];
            if (fabs(predicted - most) > 0.15 * most)
                fail_msg("%s, %s: predicted %.0f bytes, sent %.0f", of[l],
                         ss_algorithm_name(algorithms[a]), predicted, most);
            training_close(&t);
        }
}

/* ---- the form ---- */

/* The rule of one count has node: sums of that count alone have the host's residual. */
static void a_rule_gives_one_residual_per_host(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_RING);
    struct ss_rules *rules;
    char error[200];

    (void)state;
    settings.aggregation = SS_AGGREGATION_AUTO;
    open_on(&t, "1122", SS_F32, 64, 0, settings);
    assert_int_equal(ss_rules_parse("count=1100:calls=1:node count=1099:calls=1", true, &rules,
                                    error, sizeof error),
                     SS_OK);
    for (int r = 0; r < t.job.size; r++)
        t.job.settings[r].tensors.include = rules;
    for (uint64_t s = 0; s < 8; s++) {
        draw(&t, s);
        if (s % 2 == 0) {
            training_step(&t, false);
            assert_int_equal(t.job.status[0], SS_OK);
            expect_two_levels(&t);
        } else {
            for (int r = 0; r < t.job.size; r++)
                t.job.in[r] = t.gradient[r];
            assert_true(job_call(&t.job, SS_F32, SS_SUM, N - 1));
            assert_int_equal(t.job.status[0], SS_OK);
            assert_false(tensor_of(&t, 0)->range.by_host);
            assert_int_equal(ss_call_algorithm(ss_comm_call(t.job.comm[0])), SS_RING);
            break;
        }
    }
    training_close(&t);
    ss_rules_free(rules);
}

static void expect_form(const char *layout, struct ss_settings settings, bool by_host)
{
    static struct training t;

    open_on(&t, layout, SS_F32, 64, 0, settings);
    lossy_steps(&t, 3);
    for (int r = 0; r < t.job.size; r++)
        assert_int_equal(tensor_of(&t, r)->range.by_host, by_host);
    expect_conservation(&t, layout);
    training_close(&t);
}

static void the_form_follows_options_and_layout(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);

    (void)state;
    expect_form("1122", settings, true);
    expect_form("1234", settings, false); /* one rank on each host */
    expect_form("1111", settings, false); /* one host */
    settings.aggregation = SS_AGGREGATION_AUTO;
    expect_form("1122", settings, false);
    settings.aggregation = SS_AGGREGATION_OFF;
    expect_form("1122", settings, false);
    settings.aggregation = SS_AGGREGATION_ON;
    settings.merge = 1 << 20;
    expect_form("1122", settings, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_on_any_layout),
        cmocka_unit_test(short_vectors_and_other_options_lose_nothing),
        cmocka_unit_test(several_ranks_per_host_act_like_one),
        cmocka_unit_test(bytes_between_hosts_do_not_grow_with_the_ranks),
        cmocka_unit_test(a_slow_network_gets_few_entries),
        cmocka_unit_test(ranks_with_unlike_states_begin_anew),
        cmocka_unit_test(what_is_not_finite_goes_to_the_mpi_library),
        cmocka_unit_test(a_rank_that_holds_nothing_says_that_its_input_is_not_finite),
        cmocka_unit_test(before_a_sum_is_looked_at_nothing_joins_it),
        cmocka_unit_test(a_rank_without_memory_sends_the_call_to_the_mpi_library),
        cmocka_unit_test(the_plan_predicts_the_bytes),
        cmocka_unit_test(a_rule_gives_one_residual_per_host),
        cmocka_unit_test(a_resting_tensor_sends_its_residual),
        cmocka_unit_test(the_form_follows_options_and_layout)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
