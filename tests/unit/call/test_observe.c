/* MODE=observe: top-k is predicted from samples, nothing changes, and the prediction is what
 * MODE=topk then sends. */
#include "tests/unit/support/training.h"

enum { SIZE = 4 };

/* Heavy tails, and most of them in the first half of the index space. */
static void draw(struct training *t, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(step * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            put(t->type, t->gradient[r], i, x * (0.01 + y * y * y * y) * (i < t->n / 2 ? 2 : 1));
        }
}

static struct ss_settings settings_of(bool observe)
{
    struct ss_settings settings = training_settings(SS_AUTO);

    settings.observe = observe;
    settings.topk = !observe;
    return settings;
}

static const struct ss_lane_record *record_of(const struct training *t, int rank)
{
    return t->job.stats[rank].lanes;
}

static void a_sample_is_looked_at_in_calls_1_2_4_8(void **state)
{
    static struct training t;
    uint64_t sampled = 0, looks = 0;

    (void)state;
    training_open(&t, SIZE, SS_F32, 6007, 0, settings_of(true));
    for (uint64_t s = 1; s <= 300; s++) {
        draw(&t, s);
        size_t peak = t.job.mem[0].used;
        training_step(&t, false);
        bool look = s <= 16 || (s - 16) % 8 == 0;
        looks += look;
        sampled += look && (looks & (looks - 1)) == 0;
        assert_int_equal(record_of(&t, 0)->scans, looks);
        assert_int_equal(record_of(&t, 0)->planned, looks);
        assert_int_equal(t.job.comm[0]->calls, looks); /* as many votes */
        assert_int_equal(record_of(&t, 0)->topk_samples, sampled);
        assert_int_equal(ss_call_reason(ss_comm_call(t.job.comm[0])), SS_WHY_OBSERVE);
        assert_true(s < 3 || t.job.mem[0].used == peak); /* the sample is given back */
    }
    assert_int_equal(sampled, 6);
    assert_int_equal(t.native, 300);
    training_close(&t);
}

static void other_sums_are_not_sampled(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, SIZE, SS_F32, 6007, 0, settings_of(true));
    t.job.in[0] = t.job.in[1] = t.job.in[2] = t.job.in[3] = t.gradient[0];
    assert_true(job_call(&t.job, SS_I32, SS_SUM, 6007));
    assert_true(job_call(&t.job, SS_I32, SS_BOR, 6007));
    for (const struct ss_lane_record *r = record_of(&t, 0); r; r = r->next)
        assert_int_equal(r->topk_samples, 0);
    training_close(&t);
}

/* Inputs smaller and larger than the sample. */
static void what_is_predicted_is_what_topk_sends(void **state)
{
    static const size_t sizes[] = {6007, 300007};
    static struct training t;

    (void)state;
    for (int form = 0; form < 4; form++) {
        enum ss_type type = form & 1 ? SS_F64 : SS_F32;
        struct ss_settings settings = settings_of(true);
        double bytes = 0, sent, kept;

        if (form & 2) {
            settings.k = 4;
            settings.bucket = 512;
        }
        training_open(&t, SIZE, type, sizes[form & 1], 0, settings);
        draw(&t, 1);
        training_step(&t, false);
        const struct ss_lane_record *r = record_of(&t, 0);
        assert_int_equal(r->topk_samples, 1);
        assert_true(r->topk_density_sum > 0.0077 && r->topk_density_sum < 0.0102);
        kept = r->topk_kept_sum;
        assert_true(kept > 0.05 && kept < 0.5); /* the largest hold far more than their share */
        bytes = r->topk_bytes[SS_ALLGATHER];
        assert_true(r->topk_seconds[SS_OKTOPK] > 0 && r->topk_seconds[SS_DENSE] > 0);
        training_close(&t);

        settings.observe = false;
        settings.topk = true;
        settings.algorithm = SS_ALLGATHER;
        training_open(&t, SIZE, type, sizes[form & 1], 0, settings);
        draw(&t, 1);
        training_step(&t, false);
        const struct ss_call *c = ss_comm_call(t.job.comm[0]);
        sent = (double)(c->f.c.x.bytes_sent - c->f.vote.bytes);
        assert_true(fabs(bytes - sent) < 0.1 * sent);
        training_close(&t);
    }
}

/* MODE=quant, at 4 bits or as VALUE_TYPE says. */
static void what_is_predicted_is_what_quant_sends(void **state)
{
    static const unsigned types[] = {SS_VALUES_SAME, SS_VALUES_Q8};
    static struct training t;

    (void)state;
    for (int form = 0; form < 2; form++) {
        struct ss_settings settings = settings_of(true);
        double predicted, sent;

        settings.value_type = types[form];
        training_open(&t, SIZE, SS_F32, 300007, 0, settings);
        draw(&t, 1);
        training_step(&t, false);
        predicted = record_of(&t, 0)->quant_bytes;
        assert_true(record_of(&t, 0)->quant_seconds > 0);
        training_close(&t);

        settings.observe = false;
        settings.topk = true;
        settings.density = 1;
        settings.value_type = form == 0 ? SS_VALUES_Q4 : SS_VALUES_Q8;
        settings.algorithm = SS_QUANTIZED;
        training_open(&t, SIZE, SS_F32, 300007, 0, settings);
        draw(&t, 1);
        training_step(&t, false);
        const struct ss_call *c = ss_comm_call(t.job.comm[0]);
        sent = (double)(c->f.c.x.bytes_sent - c->f.vote.bytes);
        assert_true(fabs(predicted - sent) < 0.05 * sent);
        training_close(&t);
    }
}

/* Predicted bytes are told apart, too. Top-k sums are not summed inside hosts first. */
static void hosts_of_several_ranks_are_seen(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, SIZE, SS_F32, 6007, 0, settings_of(true));
    job_set_hosts(&t.job, "1122", 64);
    draw(&t, 1);
    training_step(&t, false);
    const struct ss_lane_record *r = record_of(&t, 0);
    assert_int_equal(r->topk_samples, 1);
    assert_true(isinf(r->topk_seconds[SS_TWO_LEVEL]));
    assert_true(fabs(3 * r->topk_inside[SS_ALLGATHER] / r->topk_bytes[SS_ALLGATHER] - 1) < 1e-9);
    assert_true(r->predicted_inside[SS_TWO_LEVEL] > 0);
    assert_true(r->predicted_inside[SS_TWO_LEVEL] < r->predicted_bytes[SS_TWO_LEVEL]);
    assert_int_equal(r->predicted_inside[SS_DENSE], 6007 * 4);
    assert_true(r->sent_inside > r->dense_inside && r->dense_inside > 0);
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_is_looked_at_in_calls_1_2_4_8),
        cmocka_unit_test(other_sums_are_not_sampled),
        cmocka_unit_test(what_is_predicted_is_what_topk_sends),
        cmocka_unit_test(what_is_predicted_is_what_quant_sends),
        cmocka_unit_test(hosts_of_several_ranks_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
