/* Records of lanes and tensors, and counters, under the lock of the statistics. */
#include "core/report/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"

enum { MAX_LANES = 1000, MAX_TENSORS = 4000 };

static const struct {
    const char *key, *name;
} reasons[SS_REASONS] = {
    [SS_WHY_SMALL] = {"small", "count below MIN_COUNT"},
    [SS_WHY_TYPE] = {"type", "datatype or operator not served"},
    [SS_WHY_COMMUNICATOR] = {"communicator", "communicator not served"},
    [SS_WHY_BUFFER] = {"buffer", "buffer not served"},
    [SS_WHY_FIRST] = {"first_call", "first call on its communicator"},
    [SS_WHY_SETTINGS] = {"settings", "options differ between ranks"},
    [SS_WHY_OFF] = {"off", "switched off by MPI_Pcontrol"},
    [SS_WHY_ENVIRONMENT] = {"environment", "floating-point traps or rounding mode"},
    [SS_WHY_CANNOT] = {"memory", "out of memory or MAX_MEMORY on a rank, or its device failed"},
    [SS_WHY_LIMIT] = {"max_memory", "MAX_MEMORY too small"},
    [SS_WHY_NOT_FINITE] = {"not_finite", "Inf or NaN in an input"},
    [SS_WHY_UNREGISTERED] = {"unregistered", "registered for top-k on some ranks only"},
    [SS_WHY_OBSERVE] = {"observe", "mode observe"},
    [SS_WHY_LEARN] = {"learn", "mode learn"},
    [SS_WHY_DENSE] = {"dense", "dense is faster"},
    [SS_WHY_BACKED_OFF] = {"backed_off", "dense was faster, so the vote was skipped"},
    [SS_WHY_NONBLOCKING] = {"nonblocking", "nonblocking calls not taken over"},
    [SS_WHY_BEFORE_BLOCKING] = {"before_blocking", "nonblocking before an eligible blocking call"},
    [SS_WHY_CALLBACKS] = {"callbacks", "nonblocking, own operators or callbacks"},
};

const char *ss_reason_name(enum ss_reason reason)
{
    return reasons[reason].name;
}

const char *ss_reason_key(enum ss_reason reason)
{
    return reasons[reason].key;
}

void ss_stats_init(struct ss_stats *stats, double now)
{
    *stats = (struct ss_stats){.start = now};
    pthread_mutex_init(&stats->lock, NULL);
}

void ss_stats_free(struct ss_stats *stats)
{
    for (struct ss_lane_record *r = stats->lanes; r;) {
        struct ss_lane_record *next = r->next;
        free(r);
        r = next;
    }
    for (struct ss_tensor_record *r = stats->tensors; r;) {
        struct ss_tensor_record *next = r->next;
        free(r->series);
        free(r);
        r = next;
    }
    stats->lanes = NULL;
    stats->lane_count = 0;
    stats->tensors = stats->last_tensor = NULL;
    stats->tensor_count = 0;
    pthread_mutex_destroy(&stats->lock);
}

static bool matches(const struct ss_lane_record *r, enum ss_kind kind, const char *comm, int size,
                    uint64_t count, enum ss_type type, enum ss_op op)
{
    return r->kind == kind && r->count == count && r->size == size && r->type == type &&
           r->op == op && strncmp(r->comm, comm, sizeof r->comm - 1) == 0;
}

static struct ss_lane_record *look_up(const struct ss_stats *stats, enum ss_kind kind,
                                      const char *comm, int size, uint64_t count, enum ss_type type,
                                      enum ss_op op)
{
    struct ss_lane_record *r = stats->lanes;

    while (r && !matches(r, kind, comm, size, count, type, op))
        r = r->next;
    return r;
}

struct ss_lane_record *ss_stats_lane(struct ss_stats *stats, enum ss_kind kind, const char *comm,
                                     int size, uint64_t count, enum ss_type type, enum ss_op op)
{
    struct ss_lane_record *r;

    pthread_mutex_lock(&stats->lock);
    r = look_up(stats, kind, comm, size, count, type, op);
    if (!r && stats->lane_count >= MAX_LANES) { /* all further lanes share one record */
        kind = SS_KIND_ALLREDUCE;
        comm = "";
        size = 0;
        count = 0;
        type = SS_F32;
        op = SS_SUM;
        r = look_up(stats, kind, comm, size, count, type, op);
    }
    if (!r && (r = calloc(1, sizeof *r))) {
        snprintf(r->comm, sizeof r->comm, "%s", comm);
        r->kind = kind;
        r->size = size;
        r->count = count;
        r->type = type;
        r->op = op;
        r->next = stats->lanes;
        stats->lanes = r;
        stats->lane_count++;
    }
    pthread_mutex_unlock(&stats->lock);
    return r;
}

struct ss_tensor_record *ss_stats_tensor(struct ss_stats *stats,
                                         const struct ss_tensor_record *record)
{
    struct ss_tensor_record *r;

    pthread_mutex_lock(&stats->lock);
    r = stats->tensor_count < MAX_TENSORS ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        stats->tensors_unlisted++;
    } else {
        if (record)
            *r = *record;
        r->next = NULL;
        if (stats->last_tensor)
            stats->last_tensor->next = r;
        else
            stats->tensors = r;
        stats->last_tensor = r;
        stats->tensor_count++;
    }
    pthread_mutex_unlock(&stats->lock);
    return r;
}

void ss_stats_forget_tensors(struct ss_stats *stats, const void *owner)
{
    struct ss_tensor_record **link = &stats->tensors, *last = NULL;

    pthread_mutex_lock(&stats->lock);
    while (*link) {
        struct ss_tensor_record *r = *link;

        if (r->owner == owner) {
            *link = r->next;
            free(r->series);
            free(r);
            stats->tensor_count--;
        } else {
            last = r;
            link = &r->next;
        }
    }
    stats->last_tensor = last;
    pthread_mutex_unlock(&stats->lock);
}

/* Tells reasons of calls that are not eligible from the others. */
static bool is_outside(enum ss_reason reason)
{
    static const enum ss_reason outside[] = {SS_WHY_SMALL,       SS_WHY_TYPE,
                                             SS_WHY_BUFFER,      SS_WHY_COMMUNICATOR,
                                             SS_WHY_NONBLOCKING, SS_WHY_BEFORE_BLOCKING};

    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (outside[i] == reason)
            return true;
    return false;
}

uint64_t ss_stats_eligible(struct ss_stats *stats)
{
    uint64_t seen = atomic_load(&stats->seen), passed = 0;

    for (int i = 0; i < SS_REASONS; i++)
        if (is_outside((enum ss_reason)i))
            passed += atomic_load(&stats->passed[i]);
    return seen > passed ? seen - passed : 0;
}

bool ss_stats_decided(struct ss_stats *stats)
{
    uint64_t calls = atomic_load(&stats->sparse);

    for (int i = 0; i < SS_REASONS; i++)
        if (i != SS_WHY_FIRST && !is_outside((enum ss_reason)i))
            calls += atomic_load(&stats->passed[i]);
    return calls > 0;
}

/* The power of two in it. */
static unsigned class_of(uint64_t count)
{
    unsigned i = 0;

    while (count >>= 1)
        i++;
    return i;
}

void ss_stats_small(struct ss_stats *stats, uint64_t count, uint64_t bytes, double seconds)
{
    struct ss_small *class = &stats->small[class_of(count)];

    pthread_mutex_lock(&stats->lock);
    class->calls++;
    class->bytes += bytes;
    class->seconds += seconds;
    if (count > stats->small_largest) {
        stats->small_largest = count;
        stats->small_calls = 0;
    }
    stats->small_calls += count == stats->small_largest;
    pthread_mutex_unlock(&stats->lock);
}

void ss_stats_reduced(struct ss_stats *stats, uint64_t bytes)
{
    pthread_mutex_lock(&stats->lock);
    if (bytes > stats->largest_bytes) {
        stats->largest_bytes = bytes;
        stats->largest_total = 0;
    }
    if (bytes == stats->largest_bytes)
        stats->largest_total += bytes;
    stats->reduced_total += bytes;
    pthread_mutex_unlock(&stats->lock);
}
