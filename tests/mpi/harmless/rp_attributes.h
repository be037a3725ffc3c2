/* Random programs: attributes with callbacks that count and own memory, on communicators and
 * datatypes. */
#ifndef TESTS_MPI_RP_ATTRIBUTES_H
#define TESTS_MPI_RP_ATTRIBUTES_H

#include "tests/mpi/harmless/rp_comms.h"

enum { RP_VALUE_MAGIC = 0x51a7e };

/* The value of an attribute, which owns it. */
struct rp_attribute {
    int magic, number, generation;
    struct rp_key *key;
};

static struct rp_attribute *rp_attribute_new(struct rp_key *key, int number, int generation)
{
    struct rp_attribute *value = input_alloc(sizeof *value);

    *value = (struct rp_attribute){RP_VALUE_MAGIC, number, generation, key};
    key->live++;
    return value;
}

/* Copies an attribute. `extra` is the key, which belongs to the program of one thread. */
static int rp_copied(void *extra, void *in, void *out, int *flag)
{
    const struct rp_attribute *value = in;
    struct rp_key *key = extra;
    struct rp *p = rp_callback();

    key->copies++;
    if (p)
        rp_note(p, "attribute %d of generation %d is copied in %s", value->number,
                value->generation, rp_calling());
    *flag = 0;
    if (key->fails)
        return key->fails == p->rank + 1 ? MPI_ERR_OTHER : MPI_SUCCESS;
    if (value->number % 4 == 0)
        return MPI_SUCCESS; /* not in the copy */
    *(void **)out = rp_attribute_new(key, value->number, value->generation + 1);
    *flag = 1;
    return MPI_SUCCESS;
}

RP_RUN_BY_MPI static int rp_deleted(void *in, void *extra)
{
    struct rp_attribute *value = in;
    struct rp_key *key = extra;

    rp_callback();
    key->deletes++;
    if (value->magic != RP_VALUE_MAGIC || value->key != key)
        abort();
    value->magic = 0;
    key->live--;
    free(value);
    return MPI_SUCCESS;
}

static int rp_comm_copied(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval;
    return rp_copied(extra, in, out, flag);
}

static int rp_comm_deleted(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval;
    return rp_deleted(value, extra);
}

static int rp_type_copied(MPI_Datatype type, int keyval, void *extra, void *in, void *out,
                          int *flag)
{
    (void)type, (void)keyval;
    return rp_copied(extra, in, out, flag);
}

static int rp_type_deleted(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)type, (void)keyval;
    return rp_deleted(value, extra);
}

/* Returns a key of the communicators, made when first drawn. The last key fails in a copy on a
 * single rank: the program never duplicates a communicator that has it. */
static struct rp_key *rp_draw_key(struct rp *p)
{
    struct rp_key *key = &p->key[rp_draw(p, RP_KEYS)];

    if (key->used)
        return key;
    *key = (struct rp_key){.used = true};
    if (key == &p->key[RP_KEYS - 1])
        key->fails = 1 + (int)(p->seed % (uint64_t)p->size);
    RP(Comm_create_keyval, rp_comm_copied, rp_comm_deleted, &key->keyval, key);
    return key;
}

static void rp_act_set_attribute(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);
    struct rp_key *key = rp_draw_key(p);
    int number = rp_draw(p, 100);

    if (slot->borrowed && key->fails)
        return;
    slot->poisoned = slot->poisoned || key->fails;
    if (slot->comm == MPI_COMM_NULL || rp_draw_own(p, 4) == 0)
        return;
    rp_note(p, "attribute %d on slot %d", number, rp_slot_number(p, slot));
    RP(Comm_set_attr, slot->comm, key->keyval, rp_attribute_new(key, number, 0));
}

static void rp_act_get_attribute(struct rp *p)
{
    struct rp_slot *slot = rp_draw_slot(p);
    struct rp_key *key = rp_draw_key(p);
    struct rp_attribute *value = NULL;
    int flag = 0, *bound = NULL;

    if (slot->comm == MPI_COMM_NULL)
        return;
    RP(Comm_get_attr, slot->comm, key->keyval, &value, &flag);
    if (flag)
        rp_note(p, "slot %d has attribute %d of generation %d", rp_slot_number(p, slot),
                value->number, value->generation);
    else
        rp_note(p, "slot %d has no attribute of this key", rp_slot_number(p, slot));
    if (flag && rp_draw_own(p, 2))
        RP(Comm_delete_attr, slot->comm, key->keyval);
    if (!slot->borrowed)
        return;
    RP(Comm_get_attr, slot->comm, MPI_TAG_UB, &bound, &flag);
    rp_note(p, "MPI_TAG_UB %d", flag ? *bound : -1);
}

/* Sets an attribute with predefined callbacks. The key is freed before the attribute is deleted. */
static void rp_act_dup_fn(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    MPI_Comm copy = MPI_COMM_NULL;
    int keyval, freed, flag = 0;
    void *value = NULL;

    if (slot->comm == MPI_COMM_NULL || slot->poisoned)
        return;
    RP(Comm_create_keyval, rp_draw(p, 2) ? MPI_COMM_DUP_FN : MPI_COMM_NULL_COPY_FN,
       MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    RP(Comm_set_attr, slot->comm, keyval, p);
    RP(Comm_dup, slot->comm, &copy);
    RP(Comm_get_attr, copy, keyval, &value, &flag);
    rp_note(p, "predefined copy: flag %d, the same %d", flag, flag && value == (void *)p);
    RP(Comm_delete_attr, slot->comm, keyval);
    freed = keyval;
    RP(Comm_free_keyval, &freed);
    RP(Comm_free, &copy);
}

/* Gathers a datatype with an attribute, and frees it while the call may be in flight. */
static void rp_act_type_attribute(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    struct rp_key *key = &p->type_key;
    MPI_Datatype type, copy;
    MPI_Request request = MPI_REQUEST_NULL;
    struct rp_buffers b;
    size_t n = (size_t)rp_draw_count(p), bytes = n * 8;
    bool blocking = rp_draw(p, 2);

    if (slot->comm == MPI_COMM_NULL)
        return;
    if (!key->used) {
        key->used = true;
        RP(Type_create_keyval, rp_type_copied, rp_type_deleted, &key->keyval, key);
    }
    type = rp_contiguous(2, MPI_INT);
    RP(Type_set_attr, type, key->keyval, rp_attribute_new(key, rp_draw(p, 100), 0));
    RP(Type_dup, type, &copy);
    b = rp_make_buffers(bytes, bytes * (size_t)slot->size, false);
    rp_fill(p, b.in, &rp_elements[2], n * 2, RP_SPARSE, slot->rank);
    rp_note(p, "Allgather of %zu of a type with an attribute in slot %d", n,
            rp_slot_number(p, slot));
    if (blocking)
        RP(Allgather, b.in, (int)n, type, b.out, (int)n, copy, slot->comm);
    else
        RP(Iallgather, b.in, (int)n, type, b.out, (int)n, copy, slot->comm, &request);
    RP(Type_free, &type);
    RP(Type_free, &copy);
    rp_keep_buffers(p, &b, "Allgather", !blocking, request, false);
}

/* Checks the attributes after all communicators are freed and all operations are complete, those of
 * other threads included: a request may be known to be complete while the thread that completed it
 * frees its datatypes. */
static void rp_end_attributes(struct rp *p)
{
    for (int i = 0; i <= RP_KEYS; i++) {
        struct rp_key *key = i < RP_KEYS ? &p->key[i] : &p->type_key;

        if (!key->used)
            continue;
        for (int s = 0; s < 2 && i < RP_KEYS; s++) {
            void *value = NULL;
            int flag = 0;

            RP(Comm_get_attr, p->slot[s].comm, key->keyval, &value, &flag);
            if (flag)
                RP(Comm_delete_attr, p->slot[s].comm, key->keyval);
        }
        rp_note(p, "key %d: %d copies, %d deletes, %d values live", i, key->copies, key->deletes,
                key->live);
        if (i < RP_KEYS)
            RP(Comm_free_keyval, &key->keyval);
        else
            RP(Type_free_keyval, &key->keyval);
    }
}

#endif
