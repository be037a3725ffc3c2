/* The inside of a place on a device: jobs, one for each call of a function of the place. They are
 * queued in the device's stream in the order of the calls. A job may need what the device says of
 * its first part before the second can be queued; those behind it wait here, with copies of what
 * the host's arrays held. */
#ifndef GPU_DEVICE_PLACE_IMPL_H
#define GPU_DEVICE_PLACE_IMPL_H

#include "gpu/device_place.h"

/* What has come, or will, into a slot, and where it goes once somebody asks. */
struct gpu_parcel {
    struct gpu_parcel *next;
    struct gpu_slot *slot;
    void *to;
    size_t bytes;
    gpu_ticket mark;
    uint32_t first; /* of a scan: a bitmap of so many elements from there on, whose indices go to */
    size_t bits;    /* `to`, or behind those before; 0: no bitmap */
};

/* The host's arrays: entries, elements or runs. Those up to `done` have been read. */
struct gpu_source {
    const uint32_t *idx;
    const void *val;
    const struct ss_run *runs;
    size_t count, done;
    size_t within; /* of run `done` */
    void *kept;    /* they are a copy, to be freed */
    size_t each;   /* bytes of an element; 0: as the type of the job has it */
    bool there;    /* entries that have stayed on the device */
};

/* A selection: what is given to the caller in the end, and how it gets there. */
struct gpu_selection_job {
    struct ss_selecting control;
    struct ss_threshold threshold, *threshold_to;
    struct ss_selection out, *out_to;
    bool *few_to;
    size_t k, bucket;
    uint32_t *idx;
    void *val;
    struct gpu_list list;     /* the claims on the device */
    bool missed;              /* the threshold was not found at once: */
    struct ss_selection seen; /* what that pass saw of the gradient */
};

/* By pieces of as many elements as there is room for in the list of the device. */
struct gpu_scan_job {
    struct ss_scan out, *out_to;
    uint32_t *idx;
    void *val;
    size_t capacity;        /* of idx and val */
    size_t at, piece, here; /* elements done; of the piece in hand; entries of it that go home */
    struct gpu_list list;
    bool mapping;   /* indices of the piece go home as bitmaps; */
    size_t mapped;  /* those of so many elements are on their way */
    uint32_t *next; /* of idx: where those of the next one go */
};

/* A chunk as it came. */
struct gpu_coded_job {
    struct ss_coded what;
    bool set;
    atomic_int *refused;   /* the caller's */
    struct gpu_word *word; /* not 0 where the kernel refuses it */
};

/* Entries that have stayed: parts, batches of messages, and a table of the batch in hand, which
 * lie behind one another in the job's copy. */
struct gpu_leaving_job {
    struct ss_leaving what;
    size_t *ends, *ends_to;
    struct gpu_message *table;
    size_t part, within; /* the next entries to encode */
    size_t messages;     /* of the batch; */
    size_t sent;         /* those of them that are on their way home, */
    size_t at;           /* all of which take so many bytes there */
    unsigned char *to, *area;
};

struct gpu_survey_job {
    const uint32_t *idx, *cuts;
    size_t count;
    struct ss_share *to;
};

struct gpu_job {
    struct gpu_job *next;
    ss_ticket number;
    /* Queues what can be queued; whether that is all of it. */
    bool (*step)(struct gpu_place *p, struct gpu_job *j);
    void (*give)(struct gpu_job *j);               /* small results to the caller, or NULL */
    void (*arrive)(struct gpu_job *j, void *slot); /* makes of what has come what is wanted */
    bool queued;                                   /* all of it, up to `mark` */
    unsigned phase;
    gpu_ticket mark;
    enum ss_type type;
    enum ss_op op;
    void *v;           /* written: dst, r, out */
    const void *g, *w; /* read: src, in, g; and a second one */
    size_t n, sent[2]; /* on their way home: bytes, of elements and of indices */
    int shift;         /* a sketch is in units of 2^-shift */
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

static inline struct gpu_place *gpu_place_of(struct ss_place *p)
{
    return (struct gpu_place *)(void *)p;
}

/* Of a job that waits for its first part: it has come. */
static inline bool gpu_arrived(struct gpu_place *p, const struct gpu_job *j)
{
    return gpu_passed(&p->device, j->mark) && p->device.queue.error == 0;
}

/* ---- gpu/device_jobs.c ---- */

/* A job like this at the end of all: its number. */
ss_ticket gpu_hand_over(struct ss_place *place, const struct gpu_job *as);
int gpu_poll(struct ss_place *place, ss_ticket ticket);
ss_ticket gpu_mark_all(struct ss_place *place);

/* There is no memory of some kind: an error that stays. */
void gpu_fail(struct gpu_place *p);

/* Device memory is freed once what is queued has passed; at the end, at once. */
void gpu_let_go(struct gpu_place *p, void *memory, size_t bytes);
void gpu_free_gone(struct gpu_place *p);
bool gpu_has_gone(struct gpu_place *p);
void gpu_forget_jobs(struct gpu_place *p);

size_t gpu_aligned(size_t bytes);

/* Device memory that lasts until the next job: `bytes` at least, or NULL and an error that stays.
 */
void *gpu_area(struct gpu_place *p, struct gpu_area *area, size_t bytes);

/* Pinned memory for an upload, 64 bytes and more, aligned; NULL: none is free now. */
void *gpu_upload_room(struct gpu_place *p, size_t bytes);

/* Queues a copy of device memory for the caller's. False: there is no slot now. */
bool gpu_send_home(struct gpu_place *p, struct gpu_job *j, void *to, const void *from,
                   size_t bytes);

/* The last one that was sent is a bitmap. */
void gpu_call_bitmap(struct gpu_job *j, uint32_t first, size_t bits);

/* The same from byte *sent on, as far as there are slots: whether all of it is queued. */
bool gpu_send_all_home(struct gpu_place *p, struct gpu_job *j, void *to, const void *from,
                       size_t bytes, size_t *sent);

/* Room for entries, and those of them that are wanted home. */
size_t gpu_list_bytes(size_t room, size_t size);
/* So many entries, or as many as the area has room for. */
size_t gpu_list_room(const struct gpu_area *area, size_t room, size_t size);
bool gpu_list_make(struct gpu_place *p, struct gpu_area *area, struct gpu_list *list, size_t size);
bool gpu_send_list_home(struct gpu_place *p, struct gpu_job *j, const struct gpu_list *list,
                        uint32_t *idx, void *val, size_t count);

/* ---- gpu/device_vectors.c ---- */

/* A vector of make. Behind its elements is a bit for each that a claim has left alone. */
struct gpu_vector {
    struct gpu_vector *next;
    char *data;
    size_t bytes, all; /* of the elements, of the memory */
    bool marked;       /* some bit is set */
};

/* The one that an address is of, or NULL. */
struct gpu_vector *gpu_vector_of(struct gpu_place *p, const void *v);
uint32_t *gpu_vector_marks(const struct gpu_vector *x);

/* ss_place_ops.make and drop. */
int gpu_vector_make(struct ss_place *place, struct ss_mem *mem, struct ss_buf *buf, size_t bytes);
void gpu_vector_drop(struct ss_place *place, struct ss_buf *buf);

/* ---- gpu/device_reserve.c ---- */

/* So that gpu_area will not fail, nor make anything. */
int gpu_reserve(struct ss_place *place, enum ss_type type, const struct ss_place_need *need);
/* So many entries at once, where there is memory. */
void gpu_reserve_list(struct ss_place *place, enum ss_type type, size_t entries);

/* ---- gpu/device_select.c ---- */

bool gpu_step_claim(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_claim_buckets(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_undo(struct gpu_place *p, struct gpu_job *j);
void gpu_give_selection(struct gpu_job *j);

/* ---- gpu/device_feed.c: the host's arrays, piece by piece ---- */

bool gpu_step_clear_at(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_scatter(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_accumulate(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_add_at(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_write(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_reduce(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_add_dense(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_runs(struct gpu_place *p, struct gpu_job *j);

/* Copies what has not been read. False: there is no memory. */
bool gpu_source_keep(struct gpu_source *s, enum ss_type type);
/* Entries in an order in which each ascending run has no index twice. */
bool gpu_source_order(struct gpu_source *s, enum ss_type type);

/* ---- gpu/device_coded.c ---- */

bool gpu_words_make(struct gpu_place *p); /* false: there is no pinned memory */
ss_ticket gpu_decode(struct ss_place *p, enum ss_type type, const enum ss_op *op, void *dst,
                     uint32_t base, const struct ss_coded *coded, atomic_int *refused);

/* ---- gpu/device_encode.c: entries that have stayed on the device ---- */

size_t gpu_messages_room(enum ss_type type, size_t n); /* bytes of the area */
ss_ticket gpu_encode_parts(struct ss_place *p, enum ss_type type, const struct ss_leaving *what,
                           void *to, size_t *ends);
ss_ticket gpu_survey_parts(struct ss_place *p, enum ss_type type, const uint32_t *idx,
                           const void *val, size_t nnz, const uint32_t *cuts, size_t count,
                           struct ss_share *out);

/* ---- gpu/device_ask.c: what is asked of a vector ---- */

size_t gpu_place_square_work(enum ss_type type, size_t n); /* bytes of the work area */
bool gpu_step_scan(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_square(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_not_finite(struct gpu_place *p, struct gpu_job *j);
bool gpu_step_sketch(struct gpu_place *p, struct gpu_job *j);
void gpu_give_scan(struct gpu_job *j);
void gpu_take_bitmap(struct gpu_job *j, const struct gpu_parcel *x);
void gpu_give_square(struct gpu_job *j);
void gpu_give_count(struct gpu_job *j);
void gpu_arrive_sketch(struct gpu_job *j, void *slot);

#endif
