/* MODE=learn: the records of this rank's calls and their file. A record is written as soon as the
 * MPI library has accepted its call, so that a job that is killed leaves all but its last. */
#include "shim/entry/learn.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/fpenv.h"
#include "core/learn/learn_record.h"
#include "shim/comm/comm.h"
#include "shim/device/memory.h"
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/job/program.h"
#include "shim/mpi/files.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"

/* The first ALL calls of a communicator carry a sample, then the first SOME of every EVERY. */
enum { COMMS = 256, SITES = 1024, ALL = 16384, SOME = 1024, EVERY = 16384 };
enum { FILE_MOST = 64 << 20 };

struct comm {
    uintptr_t handle; /* 0: freed */
    uint64_t group;   /* hash of its members; 0: not known yet */
    uint64_t id;
    uint64_t calls, scalars;
    int size, rank;
    bool is_new; /* its name is not in the file */
};

static struct {
    pthread_mutex_t lock;
    struct comm comm[COMMS];
    int comms;
    uint64_t site[SITES]; /* hashes of call sites and their callers */
    uint32_t sites;
    int fd; /* 0: not opened; -1: cannot be written, or is full */
    size_t written;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- communicators ---- */

/* Logs once, on rank 0, that further communicators have no row. */
static void tell_full(void)
{
    static bool told;

    if (!told && shim.process.rank == 0)
        shim_say(CFG_DEBUG_WARN,
                 "MODE=learn: the program has made more than %d communicators; calls on further "
                 "ones are not recorded",
                 COMMS);
    told = true;
}

/* Returns the row of a handle, about which MPI is not asked; NULL if there is no room. */
static struct comm *row_of(uintptr_t handle)
{
    struct comm *c = the.comm;

    while (c < the.comm + the.comms && c->handle != handle)
        c++;
    if (c == the.comm + COMMS) {
        tell_full();
        return NULL;
    }
    if (c == the.comm + the.comms) {
        *c = (struct comm){.handle = handle};
        the.comms++;
    }
    return c;
}

/* Returns a hash of the members by their ranks in the world, 0 for an intercommunicator. */
static uint64_t members(MPI_Comm comm, int size)
{
    MPI_Group group = 0, world = 0;
    uint64_t hash = (uint64_t)size + 1;
    int inter = 1;

    if (shim_real.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return 0;
    if (shim.process.sessions || shim_real.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return hash;
    if (shim_real.Comm_group(comm, &group) == MPI_SUCCESS) {
        for (int r = 0; r < size; r++) {
            int there = 0;
            shim_real.Group_translate_ranks(group, 1, &r, world, &there);
            hash = ss_mix(hash, (uint64_t)there + 1);
        }
        shim_real.Group_free(&group);
    }
    shim_real.Group_free(&world);
    return hash ? hash : 1;
}

/* Gives a communicator an id that is equal on its ranks: a hash of its members, and its number
 * among the communicators with these members in the order of their first calls. Returns true if it
 * has more than one rank. */
static bool identify(struct comm *c)
{
    MPI_Comm comm = (MPI_Comm)c->handle;
    uint64_t earlier = 0;

    if (c->group != 0)
        return c->size > 1;
    if (shim_real.Comm_size(comm, &c->size) != MPI_SUCCESS ||
        shim_real.Comm_rank(comm, &c->rank) != MPI_SUCCESS ||
        (c->group = members(comm, c->size)) == 0)
        return false;
    for (int i = 0; i < the.comms; i++)
        earlier += the.comm[i].group == c->group;
    c->id = ss_mix(c->group, earlier);
    c->is_new = c->size > 1;
    return c->size > 1;
}

void shim_learn_scalar(const struct shim_call *call)
{
    struct comm *c;

    pthread_mutex_lock(&the.lock);
    c = row_of(call->comm);
    if (c)
        c->scalars++;
    pthread_mutex_unlock(&the.lock);
}

void shim_learn_forget(uintptr_t comm)
{
    pthread_mutex_lock(&the.lock);
    for (int i = 0; i < the.comms; i++)
        if (the.comm[i].handle == comm)
            the.comm[i].handle = 0;
    pthread_mutex_unlock(&the.lock);
}

/* ---- the file ---- */

static void give_up(const char *why)
{
    shim_say(CFG_DEBUG_WARN, "MODE=learn: rank %d records no further calls: %s", shim.process.rank,
             why);
    if (the.fd > 0)
        close(the.fd);
    the.fd = -1;
}

static void append(const void *data, size_t size)
{
    if (the.fd > 0 && the.written + size > FILE_MOST)
        give_up("its file has 64 MiB");
    else if (the.fd > 0 && shim_write(the.fd, data, size) != 0)
        give_up("its file in REPORT_DIR cannot be written");
    the.written += size;
}

static void append_text(enum ss_learn_kind kind, const char *text)
{
    struct ss_learn_head head = {(uint32_t)(sizeof head + strlen(text)), kind};

    append(&head, sizeof head);
    append(text, strlen(text));
}

/* Writes the facts of the whole file, a line each. */
static void append_job(void)
{
    char text[256 + NAME_MAX], program[NAME_MAX + 1];
    struct cfg_row row;

    shim_program_name(program, sizeof program);

    snprintf(text, sizeof text, "rank %d\nranks %d\nhost %016llx\nprogram %s\n", shim.process.rank,
             shim.process.ranks,
             (unsigned long long)shim_comm_host(shim.process.rank < 0 ? 0 : shim.process.rank),
             program);
    append_text(SS_LEARN_TEXT, text);
    for (size_t i = 0; cfg_row(shim.cfg, i, &row); i++) {
        char line[512];
        if (!row.shared || row.source == CFG_FROM_DEFAULT)
            continue;
        cfg_file_line(line, sizeof line, &row);
        append_text(SS_LEARN_TEXT, line);
    }
}

static bool is_open(void)
{
    char directory[2048], name[256], path[sizeof directory + sizeof name], reason[SHIM_REASON];

    if (the.fd != 0)
        return the.fd > 0;
    if (!*shim.options.report_dir)
        give_up("it needs a directory, REPORT_DIR; `sparseshim learn` makes one");
    else if (!shim_directory_of(shim.options.report_dir, directory, sizeof directory) ||
             !shim_expand(name, sizeof name, "sparseshim-%j-%r-%p.learn"))
        give_up("the path in REPORT_DIR is too long");
    else {
        snprintf(path, sizeof path, "%s/%s", directory, name);
        the.fd = shim_file_append(path, reason);
        if (the.fd < 0)
            give_up(reason);
        else
            append_job();
    }
    return the.fd > 0;
}

/* Writes the name of a communicator, by which a rule may distinguish it. */
static void append_name(struct comm *c)
{
    char name[MPI_MAX_OBJECT_NAME] = "", text[sizeof name + 32];
    int length = 0;

    c->is_new = false;
    if (shim_real.Comm_get_name((MPI_Comm)c->handle, name, &length) != MPI_SUCCESS || !name[0])
        return;
    for (char *at = name; *at; at++)
        *at = *at == '\n' ? '?' : *at;
    (void)snprintf(text, sizeof text, "comm-%016llx %s\n", (unsigned long long)c->id, name);
    append_text(SS_LEARN_TEXT, text);
}

/* Returns the number of a call site, 0 if there is no room. */
static uint32_t site_number(const struct ss_call_site *site)
{
    char text[256];

    const uint64_t hash = ss_mix(site->hash, site->path);

    for (uint32_t i = 0; i < the.sites; i++)
        if (the.site[i] == hash)
            return i + 1;
    if (the.sites == SITES)
        return 0;
    the.site[the.sites++] = hash;
    snprintf(text, sizeof text, "%s\n%s\n%016llx", site->name ? site->name : "",
             site->symbol ? site->symbol : "", (unsigned long long)hash);
    append_text(SS_LEARN_SITE, text);
    return the.sites;
}

/* ---- a call ---- */

/* recv: the receive buffer of the program; `call` may have a copy of it. */
static void describe(struct ss_learn_record *r, const struct shim_call *call, const void *recv,
                     enum ss_type type, bool nonblocking)
{
    const bool in_place = shim_in_place(call);
    bool identified;
    struct comm *c;

    ss_registry_number(&shim.registry, recv, (uint64_t)call->count, &identified);
    *r = (struct ss_learn_record){.head = {SS_LEARN_SHORT, SS_LEARN_CALL},
                                  .count = (uint64_t)call->count,
                                  .recv = (uintptr_t)recv,
                                  .type = (uint16_t)type};
    r->flags =
        (uint16_t)((nonblocking ? SS_LEARN_NONBLOCKING : 0) | (in_place ? SS_LEARN_IN_PLACE : 0) |
                   (identified ? SS_LEARN_IDENTIFIED : 0));
    pthread_mutex_lock(&the.lock);
    c = row_of(call->comm);
    uint64_t number = c ? c->calls++ : 0;
    r->scalars = c ? c->scalars : 0;
    pthread_mutex_unlock(&the.lock);
    if (c && the.fd >= 0 && (number < ALL || number % EVERY < SOME))
        ss_learn_sample(r, type, in_place ? call->recv : call->send, (size_t)call->count);
}

/* The MPI library has accepted the call, so its handle is valid. */
static void record(struct ss_learn_record *r, const struct shim_call *call)
{
    struct shim_code_address room;
    struct ss_call_site site;
    struct comm *c;

    shim_site_find(call->site, &room, &site);
    pthread_mutex_lock(&the.lock);
    c = row_of(call->comm);
    if (c && identify(c) && is_open()) {
        if (c->is_new)
            append_name(c);
        r->comm = c->id;
        r->size = (uint32_t)c->size;
        r->rank = (uint32_t)c->rank;
        r->site = site_number(&site);
        append(r, r->head.size);
    }
    pthread_mutex_unlock(&the.lock);
}

/* Hands on a sum in device memory that the MPI library knows: its elements are not read. */
static int pass_left(const struct shim_call *call, void *request)
{
    static atomic_bool told;

    if (shim.process.rank == 0 && !atomic_exchange(&told, true))
        shim_say(CFG_DEBUG_WARN,
                 "MODE=learn: sums of buffers in device memory are not recorded, since the MPI "
                 "library is CUDA-aware and gets them as they are; with SPARSESHIM_DEVICE=cuda "
                 "they are recorded, and served");
    return shim_pass_for(call, SS_WHY_LEARN, request);
}

int shim_learn(const struct shim_call *call, enum ss_type type, enum ss_op op, void *request)
{
    struct shim_call on_host = *call;
    struct ss_learn_record r;
    struct ss_fpenv_full saved;
    int err;

    if (op == SS_SUM && ss_type_is_float(type) && shim_leaves(call->send, call->recv))
        return pass_left(call, request);
    if (call->on_device || op != SS_SUM || !ss_type_is_float(type))
        return shim_pass_for(call, SS_WHY_LEARN, request);
    if (!shim_staged_fill(&on_host, false))
        return MPI_ERR_OTHER; /* act.c raises it */
    ss_fpenv_enter_full(&saved);
    describe(&r, &on_host, call->recv, type, request != NULL);
    ss_fpenv_leave_full(&saved);
    err = shim_pass_for(&on_host, SS_WHY_LEARN, request);
    if (err == MPI_SUCCESS && shim_comm_exists(call->comm)) {
        ss_fpenv_enter_full(&saved);
        record(&r, call);
        ss_fpenv_leave_full(&saved);
    }
    return err;
}
