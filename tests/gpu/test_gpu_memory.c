/* The device memory of a backend: what is made of it, who waits for that, and what comes back. */
#include "tests/gpu/two_backends.h"

static void without_memory_there_is_no_vector(void **state)
{
    struct ss_buf a;

    (void)state;
    backend = &gpu_rank(0)->backend;
    gpu_rank(0)->device.limit = 1000;
    assert_int_equal(backend->ops->make(backend, NULL, &a, 4000), SS_ERR_MEMORY);
    assert_null(a.data);
    assert_int_equal(backend->ops->poll(backend, 1), SS_OK);
    gpu_ranks_end();
}

/* A backend whose lock is free while the driver makes memory or lets it go, which may wait for the
 * device. */
static struct {
    struct gpu_backend *backend;
    struct gpu_driver driver, watched;
    unsigned made, freed;
    bool held;
} watch;

static void look_at_lock(void)
{
    if (pthread_mutex_trylock(&watch.backend->lock) != 0)
        watch.held = true;
    else
        (void)pthread_mutex_unlock(&watch.backend->lock);
}

static CUresult watched_make(CUdeviceptr *p, size_t bytes)
{
    look_at_lock();
    watch.made++;
    return watch.driver.memory_make(p, bytes);
}

static CUresult watched_free(CUdeviceptr p)
{
    look_at_lock();
    watch.freed++;
    return watch.driver.memory_free(p);
}

static void watch_memory(struct gpu_backend *p)
{
    watch.backend = p;
    backend = &p->backend;
    watch.driver = watch.watched = *p->device.driver;
    watch.watched.memory_make = watched_make;
    watch.watched.memory_free = watched_free;
    watch.made = watch.freed = 0;
    watch.held = false;
    p->device.driver = &watch.watched;
}

static void nobody_waits_while_a_vector_is_made_or_let_go(void **state)
{
    struct ss_buf a;
    const struct gpu_driver *before;

    (void)state;
    before = gpu_rank(0)->device.driver;
    watch_memory(gpu_rank(0));
    const size_t used = watch.backend->device.used;
    for (unsigned c = 0; c < 5; c++) {
        assert_int_equal(backend->ops->make(backend, NULL, &a, 4000), SS_OK);
        assert_true(watch.backend->device.used > used);
        backend->ops->drop(backend, &a);
        assert_int_equal(ss_backend_wait(backend, backend->ops->latest(backend)), SS_OK);
        assert_int_equal(watch.freed, c); /* whoever polls may hold a lock */
        gpu_ranks_finish();
    }
    assert_int_equal(watch.made, 5);
    assert_int_equal(watch.freed, 5);
    assert_false(watch.held);
    assert_int_equal(watch.backend->device.used, used);
    watch.backend->device.driver = before;
    gpu_ranks_end();
}

/* The first calls of a size; scans take as many entries as there is memory for. */
static void nobody_waits_while_room_is_made_for_calls(void **state)
{
    const size_t n = 3 << 20, capacity = 2 << 20;
    const struct ss_backend_need claims = {.n = n, .entries = 80000, .k = 40000}, scans = {.n = n};
    const struct gpu_driver *before = gpu_rank(0)->device.driver;
    uint32_t *idx = malloc(capacity * sizeof *idx);
    float *val = malloc(capacity * sizeof *val);
    struct ss_scan seen;
    struct ss_buf a;

    (void)state;
    watch_memory(gpu_rank(0));
    assert_int_equal(backend->ops->reserve(backend, SS_F32, &scans), SS_OK);
    assert_int_equal(backend->ops->make(backend, NULL, &a, n * sizeof(float)), SS_OK);
    const unsigned made = watch.made;
    assert_int_equal(ss_backend_wait(backend, backend->ops->scan(backend, SS_F32, SS_SUM, a.data, n,
                                                                 0, idx, val, capacity, &seen)),
                     SS_OK);
    assert_int_equal(seen.nnz, 0);
    assert_int_equal(watch.made, made + 1);
    gpu_rank(0)->device.limit = gpu_rank(0)->device.used; /* then by pieces */
    gpu_rank(0)->list = (struct gpu_area){gpu_rank(0)->list.data, 1 << 20};
    assert_int_equal(ss_backend_wait(backend, backend->ops->scan(backend, SS_F32, SS_SUM, a.data, n,
                                                                 0, idx, val, capacity, &seen)),
                     SS_OK);
    assert_int_equal(watch.made, made + 1);
    gpu_rank(0)->device.limit = SIZE_MAX;
    assert_int_equal(backend->ops->reserve(backend, SS_F32, &claims), SS_OK);
    assert_true(watch.made > made + 1);
    gpu_ranks_finish();
    assert_true(watch.freed > 0);
    assert_false(watch.held);
    backend->ops->drop(backend, &a);
    gpu_rank(0)->device.driver = before;
    gpu_ranks_end();
    free(idx);
    free(val);
}

static size_t in_areas(const struct gpu_backend *p)
{
    return p->crossing.bytes + p->picked.bytes + p->work.bytes + p->list.bytes + p->between.bytes +
           p->messages.bytes;
}

static void *reserves(void *seed)
{
    uint64_t word = *(const uint64_t *)seed;

    for (int c = 0; c < 3000; c++) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        const size_t n = 1000 + (size_t)(word >> 43);
        const struct ss_backend_need need = {.n = n, .entries = n / 50, .k = n / 100};
        const int status = backend->ops->reserve(backend, SS_F32, &need);
        if (status != SS_OK && status != SS_ERR_MEMORY)
            abort();
        (void)backend->ops->poll(backend, 1);
    }
    return NULL;
}

/* Memory is made without the lock: what two threads find out of date when they come back is let
 * go. */
static void threads_that_make_room_at_once_lose_none_of_it(void **state)
{
    uint64_t seeds[2] = {1, 2};
    pthread_t threads[2];

    (void)state;
    backend = &gpu_rank(0)->backend;
    for (int round = 0; round < 2; round++) {
        gpu_rank(0)->device.limit = round == 0 ? SIZE_MAX : gpu_rank(0)->device.used;
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_create(&threads[t], NULL, reserves, &seeds[t]), 0);
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_join(threads[t], NULL), 0);
        gpu_ranks_finish();
        assert_int_equal(gpu_rank(0)->device.used, in_areas(gpu_rank(0)));
        assert_int_equal(backend->ops->poll(backend, 1), SS_OK);
    }
    gpu_rank(0)->device.limit = SIZE_MAX;
    open_world(SS_F32, 2000);
    claim(0, 40);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_there_is_no_vector),
        cmocka_unit_test(nobody_waits_while_a_vector_is_made_or_let_go),
        cmocka_unit_test(nobody_waits_while_room_is_made_for_calls),
        cmocka_unit_test(threads_that_make_room_at_once_lose_none_of_it),
    };
    return cmocka_run_group_tests_name("gpu_memory", tests, NULL, NULL);
}
