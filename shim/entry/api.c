/* Implements shim/sparseshim.h in the library. */
#include "core/tensor/residual.h"
#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
#include "shim/sparseshim.h"

#include <stdlib.h>
#include <string.h>

#include "core/call/tensor_access.h"
#include "shim/comm/comm.h"

#define EXPORT __attribute__((visibility("default")))

/* Declared weak by the header, which the definitions inherit; the linker uses them all the same. */
EXPORT __typeof__(sparseshim_1_register) sparseshim_1_register;
EXPORT __typeof__(sparseshim_1_identify) sparseshim_1_identify;
EXPORT __typeof__(sparseshim_1_unregister) sparseshim_1_unregister;
EXPORT __typeof__(sparseshim_1_set_density) sparseshim_1_set_density;
EXPORT __typeof__(sparseshim_1_tensors) sparseshim_1_tensors;
EXPORT __typeof__(sparseshim_1_stats) sparseshim_1_stats;
EXPORT __typeof__(sparseshim_1_scale_residual) sparseshim_1_scale_residual;
EXPORT __typeof__(sparseshim_1_drop_residual) sparseshim_1_drop_residual;
EXPORT __typeof__(sparseshim_1_read_residual) sparseshim_1_read_residual;

/* Returns true if top-k is active; after MPI_Finalize, only while communicators of a session
 * exist. */
static bool is_active(void)
{
    return shim_prepare() && shim.settings.topk &&
           !(atomic_load(&shim.process.finalized) && shim.table.known == 0);
}

static uint64_t bits_of(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Compare bits, since a comparison with NaN would raise an exception that the application may trap.
 * The numbers 0 to 1 have the bits of +0 to 1, or are -0. */
static bool is_density(double density)
{
    return bits_of(density) <= bits_of(1) || bits_of(density) == (uint64_t)1 << 63;
}

static bool is_finite(double number)
{
    return (bits_of(number) >> 52 & 0x7ff) != 0x7ff;
}

static int code_of(int status)
{
    switch (status) {
    case SS_ACCESS_NONE:
        return SPARSESHIM_NO_TENSOR;
    case SS_ACCESS_BUSY:
        return SPARSESHIM_BUSY;
    case SS_ACCESS_NO_RESIDUAL:
    case SS_ERR_DEVICE: /* lost with the device that held it */
        return SPARSESHIM_NO_RESIDUAL;
    case SS_ERR_MEMORY:
        return SPARSESHIM_NO_MEMORY;
    case SS_OK:
        return SPARSESHIM_OK;
    default:
        return SPARSESHIM_BAD_ARGUMENT;
    }
}

/* Results of visiting several tensors. */
struct tour {
    int tensors; /* tensors visited, including failures */
    int done;
    int failure; /* first failure; SS_OK if there was none */
};

static void visit_comm(struct ss_comm *comm, const void *buffer, ss_tensor_visit *visit, void *ctx,
                       struct tour *tour)
{
    size_t n = ss_comm_tensors(comm, buffer);

    for (size_t i = 0; i < n; i++) {
        int status = visit ? ss_comm_tensor(comm, buffer, i, visit, ctx) : SS_OK;

        tour->tensors++;
        tour->done += status == SS_OK;
        if (tour->failure == SS_OK)
            tour->failure = status;
    }
}

/* Visits all tensors of a buffer, or all tensors if it is NULL; visit NULL: counts them. */
static struct tour visit_all(const void *buffer, ss_tensor_visit *visit, void *ctx)
{
    struct tour tour = {.failure = SS_OK};
    struct shim_comm **comms;
    size_t n = shim_comm_all(&comms);

    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&comms[i]->lock);
        if (comms[i]->core)
            visit_comm(comms[i]->core, buffer, visit, ctx, &tour);
        pthread_mutex_unlock(&comms[i]->lock);
        shim_comm_put(comms[i]);
    }
    free(comms);
    return tour;
}

/* Visits tensor number `which` of a buffer. */
static int visit_one(const void *buffer, int which, ss_tensor_visit *visit, void *ctx)
{
    struct shim_comm **comms;
    size_t n = shim_comm_all(&comms), left = (size_t)which;
    int status = SS_ACCESS_NONE;
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        size_t here;

        pthread_mutex_lock(&comms[i]->lock);
        here = comms[i]->core ? ss_comm_tensors(comms[i]->core, buffer) : 0;
        if (!found && left < here) {
            status = ss_comm_tensor(comms[i]->core, buffer, left, visit, ctx);
            found = true;
        }
        pthread_mutex_unlock(&comms[i]->lock);
        left -= here;
        shim_comm_put(comms[i]);
    }
    free(comms);
    return status;
}

int sparseshim_1_register(const void *buffer, uint64_t count, double density)
{
    struct ss_registered entry = {.buffer = buffer, .count = count, .density = density};
    int status;

    if (!is_active())
        return SPARSESHIM_NOT_ACTIVE;
    if (!buffer || count == 0 || !is_density(density))
        return SPARSESHIM_BAD_ARGUMENT;
    status = ss_registry_add(&shim.registry, &entry);
    if (status == SS_OK)
        status = visit_all(buffer, ss_tensor_ask, NULL).failure;
    return code_of(status);
}

int sparseshim_1_identify(const void *buffer, uint64_t count, uint32_t position)
{
    struct ss_registered entry = {.buffer = buffer, .count = count, .position = position};

    if (!(is_active() && shim.settings.tensors.include) && !(shim_prepare() && shim_learns()))
        return SPARSESHIM_NOT_ACTIVE;
    if (!buffer || count == 0 || position == 0 || position >> 28 != 0)
        return SPARSESHIM_BAD_ARGUMENT;
    return code_of(ss_registry_add(&shim.registry, &entry));
}

int sparseshim_1_unregister(const void *buffer)
{
    struct tour tour;
    size_t removed;

    if (!is_active() && !(shim_prepare() && shim_learns()))
        return SPARSESHIM_NOT_ACTIVE;
    if (!buffer)
        return SPARSESHIM_BAD_ARGUMENT;
    removed = ss_registry_remove(&shim.registry, buffer);
    tour = visit_all(buffer, ss_tensor_withdraw, NULL);
    return removed == 0 && tour.tensors == 0 ? SPARSESHIM_NO_TENSOR : code_of(tour.failure);
}

int sparseshim_1_set_density(const void *buffer, double density)
{
    struct tour tour;
    size_t entries;

    if (!is_active())
        return SPARSESHIM_NOT_ACTIVE;
    if (!buffer || !is_density(density))
        return SPARSESHIM_BAD_ARGUMENT;
    entries = ss_registry_set_density(&shim.registry, buffer, density);
    tour = visit_all(buffer, ss_tensor_set_density, &density);
    return entries == 0 && tour.tensors == 0 ? SPARSESHIM_NO_TENSOR : code_of(tour.failure);
}

int sparseshim_1_tensors(const void *buffer)
{
    return is_active() ? visit_all(buffer, NULL, NULL).tensors : SPARSESHIM_NOT_ACTIVE;
}

static int fill_stats(struct ss_tensor *t, void *ctx)
{
    static const int states[] = {
        [SS_TENSOR_CANDIDATE] = SPARSESHIM_WATCHED,
        [SS_TENSOR_REGISTERED] = SPARSESHIM_REGISTERED,
        [SS_TENSOR_EXACT] = SPARSESHIM_EXACT,
    };
    double calls = t->stats.topk_calls > 0 ? (double)t->stats.topk_calls : 1;

    *(struct sparseshim_stats *)ctx = (struct sparseshim_stats){
        .count = t->n,
        .calls = t->calls,
        .topk_calls = t->stats.topk_calls,
        .density_asked = t->stats.asked_sum / calls,
        .density_selected = t->stats.density_sum / calls,
        .residual_norm = ss_residual_norm(t),
        .input_norm = t->stats.input_norm,
        .reason = t->reason == SS_TENSOR_NONE ? "" : ss_tensor_reason_name(t->reason),
        .state = states[t->state],
        .element_size = (uint32_t)ss_type_size(t->type),
    };
    return SS_OK;
}

/* `size` is the size of the caller's struct, which may be shorter or longer than the library's. */
int sparseshim_1_stats(const void *buffer, int which, struct sparseshim_stats *stats, size_t size)
{
    struct sparseshim_stats ours;
    int status;

    if (!is_active())
        return SPARSESHIM_NOT_ACTIVE;
    if (which < 0 || !stats)
        return SPARSESHIM_BAD_ARGUMENT;
    status = visit_one(buffer, which, fill_stats, &ours);
    if (status == SS_OK) {
        memset(stats, 0, size);
        memcpy(stats, &ours, size < sizeof ours ? size : sizeof ours);
    }
    return code_of(status);
}

/* Changes the residuals of a buffer's tensors. If some tensors have a residual, tensors without one
 * are no failure. */
static int change_residuals(const void *buffer, ss_tensor_visit *visit, void *ctx)
{
    struct tour tour = visit_all(buffer, visit, ctx);

    if (tour.tensors == 0)
        return buffer ? SPARSESHIM_NO_TENSOR : SPARSESHIM_OK;
    if (tour.failure == SS_ACCESS_NO_RESIDUAL && (tour.done > 0 || !buffer))
        return SPARSESHIM_OK;
    return code_of(tour.failure);
}

int sparseshim_1_scale_residual(const void *buffer, double factor)
{
    if (!is_active())
        return SPARSESHIM_NOT_ACTIVE;
    if (!is_finite(factor))
        return SPARSESHIM_BAD_ARGUMENT;
    return change_residuals(buffer, ss_tensor_scale, &factor);
}

int sparseshim_1_drop_residual(const void *buffer)
{
    return is_active() ? change_residuals(buffer, ss_tensor_drop, NULL) : SPARSESHIM_NOT_ACTIVE;
}

struct reading {
    void *values;
    uint64_t count;
};

static int read_residual(struct ss_tensor *t, void *ctx)
{
    const struct reading *r = ctx;

    if (r->count != t->n)
        return SPARSESHIM_BAD_ARGUMENT;
    if (!ss_residual_there(t))
        return SS_ACCESS_NO_RESIDUAL;
    return ss_residual_read(t, r->values);
}

int sparseshim_1_read_residual(const void *buffer, int which, void *values, uint64_t count)
{
    if (!is_active())
        return SPARSESHIM_NOT_ACTIVE;
    if (which < 0 || !values)
        return SPARSESHIM_BAD_ARGUMENT;
    return code_of(visit_one(buffer, which, read_residual, &(struct reading){values, count}));
}
