/* Implements the table of communicators, references to its entries, and the attribute that tells
 * when the application frees a communicator. */
#include "shim/comm/comm.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/call/tensor_access.h"
#include "shim/comm/lists.h"
#include "shim/comm/partial_calls.h"
#include "shim/comm/shared.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Static entries for a rank without memory. With an entry the rank takes part in the first
 * exchange, where other ranks wait for it, and all ranks learn that their calls pass. */
static struct shim_comm spares[SHIM_SPARES];

/* Handle that this thread is freeing, 0: none. */
static _Thread_local uintptr_t freeing_now;

/* Returns the link to the entry of a handle, or to the end of its bucket. An entry that another
 * thread is freeing is skipped, since MPI may have reused the handle. If `own`, finds an entry that
 * this thread is freeing. Called under the lock of the table. */
static struct shim_comm **find(MPI_Comm comm, bool own)
{
    struct shim_comm **link = &shim.table.buckets[shim_bucket_of((uintptr_t)comm)];

    for (; *link; link = &(*link)->in_table.next) {
        bool mine =
            (*link)->in_table.freeing && pthread_equal((*link)->in_table.freer, pthread_self());

        if ((*link)->handle == comm && (mine || !(own || (*link)->in_table.freeing)))
            break;
    }
    return link;
}

struct shim_comm *shim_comm_get(uintptr_t handle)
{
    struct shim_comm *c;

    pthread_mutex_lock(&shim.table.lock);
    c = *find((MPI_Comm)handle, false);
    if (c)
        c->in_table.refs++;
    pthread_mutex_unlock(&shim.table.lock);
    return c;
}

/* Called under the lock of the table after each change of a bucket. */
static void note_bucket(size_t bucket)
{
    const struct shim_comm *c = shim.table.buckets[bucket];
    uint64_t content = c ? SHIM_MIXED : 0;

    if (c && !c->in_table.next && !c->in_table.freeing && c->size > 0 &&
        c->size >> SHIM_RANKS_BITS == 0 && (uintptr_t)c->handle >> (64 - SHIM_RANKS_BITS) == 0)
        content = (uint64_t)(uintptr_t)c->handle << SHIM_RANKS_BITS | (uint64_t)c->size;
    atomic_store_explicit(&shim.table.content[bucket], content, memory_order_relaxed);
}

int shim_comm_known_size(uintptr_t handle)
{
    struct shim_comm *c;
    int size;

    pthread_mutex_lock(&shim.table.lock);
    c = *find((MPI_Comm)handle, false);
    size = c ? c->size : 0;
    pthread_mutex_unlock(&shim.table.lock);
    return size;
}

void shim_comm_insert(struct shim_comm *c)
{
    struct shim_comm **bucket = &shim.table.buckets[shim_bucket_of((uintptr_t)c->handle)];

    pthread_mutex_lock(&shim.table.lock);
    c->in_table.freeing = shim_comm_is_going((uintptr_t)c->handle); /* in a callback of that call */
    c->in_table.freer = pthread_self();
    c->in_table.next = *bucket;
    *bucket = c;
    note_bucket(shim_bucket_of((uintptr_t)c->handle));
    shim.table.known++;
    c->in_table.number = shim.table.exchanges++;
    pthread_mutex_unlock(&shim.table.lock);
}

static int by_number(const void *a, const void *b)
{
    const struct shim_comm *const *x = a, *const *y = b;

    return ((*x)->in_table.number > (*y)->in_table.number) -
           ((*x)->in_table.number < (*y)->in_table.number);
}

size_t shim_comm_all(struct shim_comm ***list)
{
    size_t room, n = 0;

    pthread_mutex_lock(&shim.table.lock);
    room = shim.table.known + 16; /* room for entries that come before the lock is taken again */
    pthread_mutex_unlock(&shim.table.lock);
    *list = malloc(room * sizeof **list);
    if (!*list)
        return 0;
    pthread_mutex_lock(&shim.table.lock);
    for (size_t b = 0; b < SHIM_BUCKETS; b++)
        for (struct shim_comm *c = shim.table.buckets[b]; c && n < room; c = c->in_table.next) {
            c->in_table.refs++;
            (*list)[n++] = c;
        }
    pthread_mutex_unlock(&shim.table.lock);
    qsort(*list, n, sizeof **list, by_number);
    return n;
}

static bool close_rounds(struct shim_comm *c)
{
    if (c->core && ss_comm_has_rounds(c->core)) {
        shim_partial_settle(c);
        ss_comm_close_rounds(c->core);
    }
    return shim_partial_unequip(&c->rounds);
}

static void free_hosts(struct shim_hosts *hosts, int size)
{
    ss_layout_free(hosts->layout);
    ss_peers_free(hosts->peers);
    shim_shared_free(&hosts->shared, size);
    *hosts = (struct shim_hosts){.layout = NULL};
}

void shim_comm_release(struct shim_comm *c)
{
    bool idle = true;

    if (c->core) {
        shim_tell_lost(c->core);
        shim_tell_unsent(c->core);
        shim_tell_freed(c);
    }
    if (c->core && shim_report_is_due())
        ss_comm_book_tensors(c->core, true);
    if (c->rounds.open)
        idle = close_rounds(c);
    idle = shim_transport_close(&c->transport) && idle;
    if (c->core && idle)
        ss_comm_free(c->core);
    free_hosts(&c->hosts, c->size);
    if (c->private != MPI_COMM_NULL)
        shim_real.Comm_free(&c->private);
    if (c->rounds.comm != MPI_COMM_NULL)
        shim_real.Comm_free(&c->rounds.comm);
    if (c->group != MPI_GROUP_NULL)
        shim_real.Group_free(&c->group);
    if (c->reserved)
        atomic_fetch_sub(c->reserved, 1);
    c->reserved = NULL;
    c->core = NULL;
}

struct shim_comm *shim_comm_allocate(void)
{
    struct shim_comm *c = calloc(1, sizeof *c);

    for (size_t i = 0; !c && i < SHIM_SPARES; i++)
        if (!atomic_exchange(&shim.table.spare_used[i], true)) {
            c = &spares[i];
            memset(c, 0, sizeof *c);
            c->in_table.spare = true;
        }
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    c->private = c->rounds.comm = MPI_COMM_NULL;
    c->first.request = MPI_REQUEST_NULL;
    c->group = MPI_GROUP_NULL;
    c->follows = atomic_load(&shim.table.residuals_freed);
    return c;
}

static void discard(struct shim_comm *c)
{
    shim_comm_release(c);
    if (c->first.request != MPI_REQUEST_NULL || c->state == SHIM_COMM_FAILED)
        return; /* a request of this library may still write to it */
    pthread_mutex_destroy(&c->lock);
    if (c->in_table.spare)
        atomic_store(&shim.table.spare_used[c - spares], false);
    else
        free(c);
}

/* Drops a reference. Returns the entry if it was the last, for the caller to discard. */
static struct shim_comm *unreference(struct shim_comm *c)
{
    bool last;

    pthread_mutex_lock(&shim.table.lock);
    last = --c->in_table.refs == 0;
    pthread_mutex_unlock(&shim.table.lock);
    return last ? c : NULL;
}

void shim_comm_put(struct shim_comm *c)
{
    if (unreference(c))
        discard(c);
}

static void push(_Atomic(struct shim_comm *) *list, struct shim_comm *c)
{
    c->in_table.next = atomic_load(list);
    while (!atomic_compare_exchange_weak(list, &c->in_table.next, c))
        ;
}

void shim_comm_put_later(struct shim_comm *c)
{
    c = unreference(c);
    if (c)
        push(&shim.table.dropped, c);
}

void shim_comm_sweep(void)
{
    struct shim_comm *c = atomic_exchange(&shim.table.dropped, NULL);

    while (c) {
        struct shim_comm *next = c->in_table.next;

        discard(c);
        c = next;
    }
}

static struct shim_comm *take_out(MPI_Comm comm, bool own, bool *empty)
{
    struct shim_comm **link, *c;

    pthread_mutex_lock(&shim.table.lock);
    link = find(comm, own);
    c = *link;
    if (c) {
        *link = c->in_table.next;
        note_bucket(shim_bucket_of((uintptr_t)comm));
        shim.table.known--;
    }
    *empty = shim.table.known == 0;
    pthread_mutex_unlock(&shim.table.lock);
    return c;
}

/* Removes the entry of a communicator that the application frees. Runs in any thread and inside any
 * MPI call of this library, so that it frees nothing: the next eligible call or the end of the job
 * frees the private communicator. */
static void let_go(MPI_Comm comm, bool own)
{
    bool empty;
    struct shim_comm *c = take_out(comm, own, &empty);

    if (!c)
        return; /* the job has ended */
    atomic_store(&c->freed, true);
    if (atomic_load(&shim.process.finalizing)) {
        push(&shim.table.ended, c); /* its MPI objects end with MPI, which must not be called now */
        return;
    }
    shim_partial_leave(c);
    shim_comm_put_later(c);
    if (empty && shim.process.sessions)
        shim.hooks.last_comm_gone();
}

/* Returns true if the entry is still in the table. Callbacks of the application that run after this
 * library's may use the communicator; on other ranks they may run before. If a callback fails, the
 * communicator lives on. */
static bool is_kept(MPI_Comm comm)
{
    bool does;

    pthread_mutex_lock(&shim.table.lock);
    does = *find(comm, true) != NULL;
    pthread_mutex_unlock(&shim.table.lock);
    return does;
}

static int on_delete(MPI_Comm argument, int keyval, void *value, void *extra)
{
    const MPI_Comm comm = (MPI_Comm)shim_abi_word((uintptr_t)argument);

    (void)keyval, (void)value, (void)extra;
    if (comm == MPI_COMM_WORLD && atomic_load(&shim.process.finalizing))
        return MPI_SUCCESS; /* stays served until MPI_Finalize returns */
    if (!is_kept(comm))
        let_go(comm, false);
    return MPI_SUCCESS;
}

static int new_key(void)
{
    int keyval = SHIM_NO_KEY;

    shim_real.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyval, NULL);
    return keyval;
}

/* Key for all communicators, until MPI_Finalize. */
static atomic_int common_key = SHIM_NO_KEY;

static int shared_key(void)
{
    int keyval = atomic_load(&common_key);
    int made;

    if (keyval != SHIM_NO_KEY)
        return keyval;
    made = new_key();
    if (!atomic_compare_exchange_strong(&common_key, &keyval, made))
        shim_real.Comm_free_keyval(&made);
    else
        keyval = made;
    return keyval;
}

static bool is_attached(MPI_Comm comm, int keyval)
{
    void *value;
    int there = 0;

    return keyval != SHIM_NO_KEY &&
           shim_real.Comm_get_attr(comm, keyval, &value, &there) == MPI_SUCCESS && there;
}

/* Uses a key per communicator in applications with sessions, which may end their last one at any
 * time. The key is freed at once and lives on with the attribute, so that no clean-up is needed. */
bool shim_comm_attach(MPI_Comm comm)
{
    bool single = shim.process.sessions || atomic_load(&shim.process.finalizing);
    int keyval;
    bool attached;

    if (shim_comm_is_going((uintptr_t)comm))
        return true; /* shim_comm_end_free handles it */
    keyval = single ? new_key() : shared_key();
    if (keyval == SHIM_NO_KEY)
        return false;
    attached = !single && is_attached(comm, keyval);
    if (!attached)
        attached = shim_real.Comm_set_attr(comm, keyval, NULL) == MPI_SUCCESS;
    if (single)
        shim_real.Comm_free_keyval(&keyval);
    return attached;
}

void shim_comm_end_keys(void)
{
    int keyval = atomic_exchange(&common_key, SHIM_NO_KEY);

    if (keyval != SHIM_NO_KEY)
        shim_real.Comm_free_keyval(&keyval);
}

bool shim_comm_is_going(uintptr_t handle)
{
    return freeing_now != 0 && (MPI_Comm)handle == (MPI_Comm)freeing_now;
}

/* Deletes the attribute before MPI_Comm_free, which returns the result of the last callback: this
 * must not be the shim's. */
static void detach(MPI_Comm comm)
{
    int keyval = atomic_load(&common_key);

    if (is_attached(comm, keyval))
        shim_real.Comm_delete_attr(comm, keyval);
}

struct shim_comm *shim_comm_begin_free(uintptr_t handle, uintptr_t *outer)
{
    struct shim_comm *c = shim_comm_get(handle);

    *outer = freeing_now;
    freeing_now = handle;
    if (c) {
        pthread_mutex_lock(&shim.table.lock);
        c->in_table.freeing = true;
        c->in_table.freer = pthread_self();
        note_bucket(shim_bucket_of(handle));
        pthread_mutex_unlock(&shim.table.lock);
    }
    if (c)
        detach((MPI_Comm)handle);
    return c;
}

/* Restores the entry after a callback has failed and the communicator lives on. */
static void keep(MPI_Comm comm)
{
    struct shim_comm *c;

    pthread_mutex_lock(&shim.table.lock);
    c = *find(comm, true);
    if (c) {
        c->in_table.freeing = false;
        note_bucket(shim_bucket_of((uintptr_t)comm));
    }
    pthread_mutex_unlock(&shim.table.lock);
    if (c)
        shim_comm_attach(comm);
}

void shim_comm_end_free(struct shim_comm *c, uintptr_t handle, uintptr_t outer, bool freed)
{
    freeing_now = outer;
    if (freed)
        let_go((MPI_Comm)handle, true); /* also an entry that a callback has made */
    else
        keep((MPI_Comm)handle);
    if (c)
        shim_comm_put(c);
}

/* Frees memory without an MPI call. The buffers of messages that have not ended stay. */
static void bury(struct shim_comm *c)
{
    if (c->first.request != MPI_REQUEST_NULL || c->state == SHIM_COMM_FAILED ||
        c->transport.count > 0 || c->rounds.transport.count > 0)
        return;
    ss_comm_free(c->core);
    free_hosts(&c->hosts, c->size);
    shim_transport_free(&c->transport);
    shim_transport_free(&c->rounds.transport);
    pthread_mutex_destroy(&c->lock);
    if (!c->in_table.spare)
        free(c);
}

void shim_comm_bury(void)
{
    bool empty;
    struct shim_comm *next, *c = take_out(MPI_COMM_WORLD, false, &empty);

    if (c)
        push(&shim.table.ended, c);
    for (c = atomic_exchange(&shim.table.ended, NULL); c; c = next) {
        next = c->in_table.next;
        if (shim_list_remove(SHIM_PARTIAL, c))
            unreference(c);
        if (unreference(c))
            bury(c);
    }
}

struct shim_comm *shim_comm_agreed(uintptr_t handle)
{
    struct shim_comm *c = shim_comm_get(handle);

    if (!c || c->state != SHIM_COMM_LATER)
        return c;
    shim_comm_put(c);
    return NULL;
}

void shim_comm_forget(uintptr_t handle)
{
    struct shim_comm *c = shim_comm_get(handle);
    const bool later = c && c->state == SHIM_COMM_LATER;
    bool empty;

    if (c)
        shim_comm_put(c);
    c = later ? take_out((MPI_Comm)handle, false, &empty) : NULL;
    if (c)
        shim_comm_put(c);
}

enum { MOST_SERVED = 2 * SHIM_PRIVATES };

/* Lists the served communicators, each with a reference for the caller. Allocates nothing. */
static size_t all_served(struct shim_comm *list[MOST_SERVED])
{
    size_t n = 0;

    pthread_mutex_lock(&shim.table.lock);
    for (size_t b = 0; b < SHIM_BUCKETS; b++)
        for (struct shim_comm *c = shim.table.buckets[b]; c && n < MOST_SERVED;
             c = c->in_table.next)
            if (c->state == SHIM_COMM_SERVED) {
                c->in_table.refs++;
                list[n++] = c;
            }
    pthread_mutex_unlock(&shim.table.lock);
    return n;
}

void shim_comm_give_back(void)
{
    struct shim_comm *list[MOST_SERVED];
    size_t n = all_served(list);

    for (size_t i = 0; i < n; i++) {
        if (pthread_mutex_trylock(&list[i]->lock) == 0) {
            ss_comm_give_back(list[i]->core);
            pthread_mutex_unlock(&list[i]->lock);
        }
        shim_comm_put_later(list[i]);
    }
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void shim_comm_close_all(void)
{
    struct shim_comm *c;

    for (size_t i = 0; i < SHIM_BUCKETS; i++) {
        pthread_mutex_lock(&shim.table.lock);
        c = shim.table.buckets[i];
        shim.table.buckets[i] = NULL;
        note_bucket(i);
        pthread_mutex_unlock(&shim.table.lock);
        while (c) {
            struct shim_comm *next = c->in_table.next;

            shim_comm_put(c);
            c = next;
        }
    }
    shim.table.known = 0;
    shim_comm_sweep();
    shim_costs_forget();
}
