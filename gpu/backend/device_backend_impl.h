/* The inside of a backend on a device: jobs, one for each call of a function of the backend. The
 * jobs are queued in the device's stream in the order of the calls. A job may need the device's
 * results of its first part before its second part can be queued. The jobs behind it wait on the
 * host, with copies of the host's arrays. */
#ifndef GPU_DEVICE_BACKEND_IMPL_H
#define GPU_DEVICE_BACKEND_IMPL_H

#include "gpu/backend/device_backend.h"

/* A result on its way to the host: a copy into a slot, and the caller's memory that gets it in a
 * poll. */
struct gpu_parcel {
    struct gpu_parcel *next;
    struct gpu_slot *slot;
    void *to;
    size_t bytes;
    gpu_ticket end;
    /* of a scan: index of the first element of a bitmap, whose indices go to `to`, or behind the
     * indices of the bitmap before if `to` is NULL */
    uint32_t first;
    size_t bits; /* elements of the bitmap; 0: none */
};

/* Arrays of the host: entries, elements or runs. The first `done` of them have been read. */
struct gpu_source {
    const uint32_t *idx;
    const void *val;
    const struct ss_run *runs;
    size_t count, done;
    size_t within; /* elements read of run `done` */
    void *kept;    /* copy of the arrays, to be freed */
    size_t each;   /* bytes of an element; 0: as the job's type */
    bool there;    /* the entries are on the device */
};

/* A selection, with the results and the caller's memory for each. */
struct gpu_selection_job {
    struct ss_selecting control;
    struct ss_threshold threshold, *threshold_to;
    struct ss_selection out, *out_to;
    bool *few_to;
    size_t k, bucket;
    uint32_t *idx;
    void *val;
    struct gpu_list list;     /* claims on the device */
    bool missed;              /* the sample has missed the threshold */
    struct ss_selection seen; /* the gradient as that pass has seen it */
};

/* A scan. Works by pieces, each of as many elements as the device's list has room for. */
struct gpu_scan_job {
    struct ss_scan out, *out_to;
    uint32_t *idx;
    void *val;
    size_t capacity; /* room of idx and val */
    /* elements done; elements of the piece; entries of the piece that go to the host */
    size_t at, piece, here;
    struct gpu_list list;
    bool mapping;   /* indices of the piece go to the host as bitmaps */
    size_t mapped;  /* elements of the piece whose bitmaps are on their way */
    uint32_t *next; /* position in idx for the indices of the next bitmap */
};

/* A received chunk, to be decoded on the device. */
struct gpu_coded_job {
    struct ss_coded what;
    bool set;              /* scatter; else accumulate */
    atomic_int *refused;   /* the caller's memory */
    struct gpu_word *word; /* word that the kernel sets if it refuses the chunk */
};

/* Entries that have stayed on the device, to be encoded in batches of messages. The job's copy
 * holds the parts, their ends and the table of the current batch, one behind the other. */
struct gpu_leaving_job {
    struct ss_leaving what;
    size_t *ends, *ends_to;
    struct gpu_message *table;
    size_t part, within; /* position of the next entries to encode */
    size_t messages;     /* messages of the batch */
    size_t sent;         /* messages that are on their way to the host */
    size_t at;           /* bytes of all messages of the batch */
    unsigned char *to, *area;
};

struct gpu_survey_job {
    const uint32_t *idx, *cuts;
    size_t count;
    struct ss_share *to;
};

/* Queues as much of the job as possible. Returns true if all is queued. */
typedef bool gpu_step(struct gpu_backend *p, struct gpu_job *j);
/* Gives small results to the caller. */
typedef void gpu_give(struct gpu_job *j);

struct gpu_job {
    struct gpu_job *next;
    ss_ticket number;
    gpu_step *step;
    gpu_give *give;                                /* NULL: none */
    void (*arrive)(struct gpu_job *j, void *slot); /* converts a result in its slot; NULL: none */
    bool queued;                                   /* the whole job is queued, up to `end` */
    unsigned phase;
    gpu_ticket end;
    enum ss_type type;
    enum ss_op op;
    void *v;           /* vector that is written: dst, r, out */
    const void *g, *w; /* vectors that are read: src, in, g; and a second one */
    size_t n, sent[2]; /* bytes on their way to the host: of elements, of indices */
    int shift;         /* a sketch counts in units of 2^-shift */
    uint32_t base;
    double factor;
    struct gpu_source from;
    void *to;
    struct gpu_parcel *parcels, **parcels_end, *newest;
    union {
        struct gpu_selection_job select;
        struct gpu_scan_job scan;
        struct gpu_coded_job coded;
        struct gpu_leaving_job leaving;
        struct gpu_survey_job survey;
        double square;
        size_t count;
    };
};

/* Returns true if the first part of a waiting job is done. */
static inline bool gpu_arrived(struct gpu_backend *p, const struct gpu_job *j)
{
    return gpu_passed(&p->device, j->end) && p->device.queue.error == 0;
}

/* ---- gpu/backend/device_jobs.c ---- */

/* Appends a job like this one. Returns its number. */
ss_ticket gpu_hand_over(struct ss_backend *backend, const struct gpu_job *as);
int gpu_poll(struct ss_backend *backend, ss_ticket ticket);
ss_ticket gpu_latest(struct ss_backend *backend);

/* Sets an error that stays, for lack of memory. */
void gpu_fail(struct gpu_backend *p);

/* Frees device memory once queued work has passed; when the backend closes, at once. */
void gpu_let_go(struct gpu_backend *p, void *memory, size_t bytes);
void gpu_free_gone(struct gpu_backend *p);
bool gpu_has_gone(struct gpu_backend *p);
void gpu_forget_jobs(struct gpu_backend *p);

size_t gpu_aligned(size_t bytes);

/* Returns device memory that lasts until the next job, of `bytes` at least. Returns NULL, with an
 * error that stays, if there is none. */
void *gpu_area(struct gpu_backend *p, struct gpu_area *area, size_t bytes);

/* Returns aligned pinned memory for an upload, 64 bytes at least, or NULL if none is free now. */
void *gpu_upload_room(struct gpu_backend *p, size_t bytes);

/* Queues a copy from device memory to the caller's memory. Returns false if no slot is free. */
bool gpu_send_to_host(struct gpu_backend *p, struct gpu_job *j, void *to, const void *from,
                      size_t bytes);

/* Marks the last copy as a bitmap. */
void gpu_call_bitmap(struct gpu_job *j, uint32_t first, size_t bits);

/* Queues a copy of any length, from byte *sent on, as far as slots are free. Returns true if all is
 * queued. */
bool gpu_send_all_to_host(struct gpu_backend *p, struct gpu_job *j, void *to, const void *from,
                          size_t bytes, size_t *sent);

/* Return the bytes of a list with room for so many entries. Without so much room in the area,
 * gpu_list_room returns the entries that fit. */
size_t gpu_list_bytes(size_t room, size_t size);
/* Returns `room`, or the number of entries that the area has room for if that is less. */
size_t gpu_list_room(const struct gpu_area *area, size_t room, size_t size);
bool gpu_list_make(struct gpu_backend *p, struct gpu_area *area, struct gpu_list *list,
                   size_t size);
bool gpu_send_list_to_host(struct gpu_backend *p, struct gpu_job *j, const struct gpu_list *list,
                           uint32_t *idx, void *val, size_t count);

/* ---- gpu/backend/device_vectors.c ---- */

/* A vector of make. After its elements comes one bit per element, set if a claim has left the
 * element alone. */
struct gpu_vector {
    struct gpu_vector *next;
    char *data;
    size_t bytes, all; /* bytes of the elements and of the whole memory */
    bool overflowed;   /* some bit is set */
};

/* Returns the vector that contains an address, or NULL. */
struct gpu_vector *gpu_vector_of(struct gpu_backend *p, const void *v);
uint32_t *gpu_vector_overflows(const struct gpu_vector *x);

/* The functions make and drop of ss_backend_ops. */
int gpu_vector_make(struct ss_backend *backend, struct ss_mem *mem, struct ss_buf *buf,
                    size_t bytes);
void gpu_vector_drop(struct ss_backend *backend, struct ss_buf *buf);

/* ---- gpu/backend/device_reserve.c ---- */

/* Reserves room so that gpu_area neither fails nor allocates. */
int gpu_reserve(struct ss_backend *backend, enum ss_type type, const struct ss_backend_need *need);
/* Makes room for so many entries in the list, if there is memory. */
void gpu_reserve_list(struct ss_backend *backend, enum ss_type type, size_t entries);

/* ---- gpu/backend/device_select.c ---- */

bool gpu_step_claim(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_claim_buckets(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_undo(struct gpu_backend *p, struct gpu_job *j);
void gpu_give_selection(struct gpu_job *j);

/* ---- gpu/backend/device_feed.c: the host's arrays, piece by piece ---- */

bool gpu_step_clear_at(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_scatter(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_accumulate(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_add_at(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_write(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_reduce(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_add_dense(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_runs(struct gpu_backend *p, struct gpu_job *j);

/* Copies the arrays that have not been read. Returns false without memory. */
bool gpu_source_keep(struct gpu_source *s, enum ss_type type);
/* Reorders entries so that no ascending run has an index twice. Returns false without memory. */
bool gpu_source_order(struct gpu_source *s, enum ss_type type);

/* ---- gpu/backend/device_coded.c ---- */

bool gpu_words_make(struct gpu_backend *p); /* returns false without pinned memory */
ss_ticket gpu_decode(struct ss_backend *p, enum ss_type type, const enum ss_op *op, void *dst,
                     uint32_t base, const struct ss_coded *coded, atomic_int *refused);

/* ---- gpu/backend/device_encode.c: entries that have stayed on the device ---- */

size_t gpu_messages_room(enum ss_type type, size_t n); /* bytes of the area */
ss_ticket gpu_encode_parts(struct ss_backend *p, enum ss_type type, const struct ss_leaving *what,
                           void *to, size_t *ends);
ss_ticket gpu_survey_parts(struct ss_backend *p, enum ss_type type, const uint32_t *idx,
                           const void *val, size_t nnz, const uint32_t *cuts, size_t count,
                           struct ss_share *out);

/* ---- gpu/backend/device_ask.c: scans and sums of a vector ---- */

size_t gpu_backend_square_work(enum ss_type type, size_t n); /* bytes of the work area */
bool gpu_step_scan(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_square(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_not_finite(struct gpu_backend *p, struct gpu_job *j);
bool gpu_step_sketch(struct gpu_backend *p, struct gpu_job *j);
void gpu_give_scan(struct gpu_job *j);
void gpu_take_bitmap(struct gpu_job *j, const struct gpu_parcel *x);
void gpu_give_square(struct gpu_job *j);
void gpu_give_count(struct gpu_job *j);
void gpu_arrive_sketch(struct gpu_job *j, void *slot);

#endif
