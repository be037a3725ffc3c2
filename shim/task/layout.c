/* Finds the contents of the buffers of allgather, reduce_scatter and reduce, in words of 4 or 8
 * bytes. */
#include <stdlib.h>
#include <string.h>

#include "shim/device/memory.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"
#include "shim/task/task.h"

enum { DEEPEST = 4 }; /* levels of contiguous types */

static bool is_predefined(MPI_Datatype type)
{
    return shim_handle_size((uintptr_t)type) > 0;
}

/* Frees a datatype, unless it is one that must not be freed: a pair type, or a type of given
 * precision. */
static void let_go(MPI_Datatype *type)
{
    struct shim_form form;

    if (!is_predefined(*type) && shim_type_form(*type, &form) &&
        form.combiner != MPI_COMBINER_NAMED && form.combiner != MPI_COMBINER_F90_INTEGER &&
        form.combiner != MPI_COMBINER_F90_REAL && form.combiner != MPI_COMBINER_F90_COMPLEX)
        shim_real.Type_free(type);
}

/* Returns the predefined type whose elements follow one another in `type`, with their number;
 * MPI_DATATYPE_NULL for other layouts. Contents of a type are handles of their own. */
static MPI_Datatype element_of(MPI_Datatype type, uint64_t *many, int depth)
{
    struct shim_form form;
    int count[1];
    MPI_Datatype inner = 0, found = 0;

    if (is_predefined(type))
        return type;
    if (depth == DEEPEST || !shim_is_derived((uintptr_t)type) || !shim_type_form(type, &form) ||
        form.types != 1 || form.integers > 1 || form.others ||
        (form.combiner != MPI_COMBINER_CONTIGUOUS && form.combiner != MPI_COMBINER_DUP))
        return MPI_DATATYPE_NULL;
    if (shim_real.Type_get_contents(type, (int)form.integers, 0, 1, count, NULL, &inner) !=
        MPI_SUCCESS)
        return MPI_DATATYPE_NULL;
    if (form.combiner == MPI_COMBINER_CONTIGUOUS)
        *many *= (uint64_t)count[0];
    found = element_of(inner, many, depth + 1);
    let_go(&inner);
    return found;
}

/* Returns the words per element of a datatype: words of 4 bytes, or of 8 if elements have 8 or 16.
 * 0: not served. */
static uint64_t words_of(uintptr_t datatype, size_t *word)
{
    uint64_t many = 1;
    MPI_Datatype element = element_of((MPI_Datatype)datatype, &many, 0);
    size_t size = element == MPI_DATATYPE_NULL ? 0 : shim_handle_size((uintptr_t)element);

    if (size != 4 && size != 8 && size != 16)
        return 0;
    *word = size == 4 ? 4 : 8;
    return many * (size / *word);
}

uint64_t shim_size_of(uintptr_t type)
{
    size_t size = shim_handle_size(type);
    MPI_Count derived = 0;

    if (shim_is_derived(type) &&
        shim_real.Type_size_x((MPI_Datatype)type, &derived) == MPI_SUCCESS && derived > 0)
        size = (size_t)derived;
    return size;
}

uint64_t shim_bytes(const struct shim_call *call, int size)
{
    uint64_t elements = (uint64_t)call->count, bytes;

    if (call->counts) {
        elements = 0;
        for (int r = 0; r < size; r++) {
            int64_t count = shim_list_entry(call->counts, call->large, r);

            if (count < 0 || __builtin_add_overflow(elements, (uint64_t)count, &elements))
                return 0;
        }
    } else if (call->kind != SS_KIND_REDUCE) {
        if (__builtin_mul_overflow(elements, (uint64_t)size, &elements))
            return 0;
    }
    return __builtin_mul_overflow(elements, shim_size_of(call->type), &bytes) ? 0 : bytes;
}

uint64_t shim_even_bytes(const struct shim_call *call, int size)
{
    struct shim_call even = *call;

    if (call->counts)
        even.count = shim_list_entry(call->counts, call->large, 0);
    even.counts = NULL;
    return shim_bytes(&even, size);
}

bool shim_parts_are_equal(const struct shim_call *call, int size)
{
    for (int r = 0; call->counts && r < size; r++)
        if (shim_list_entry(call->counts, call->large, r) != call->count)
            return false;
    return true;
}

/* Sets the first elements of the slices. Returns false if the slices do not follow one another in
 * the order of ranks. */
static bool slices(struct shim_task *task, uint64_t words)
{
    const struct shim_call *call = &task->call;
    int size = task->comm->size;
    uint32_t *parts = malloc(((size_t)size + 1) * sizeof *parts);
    int64_t next = 0;

    task->content.parts = parts;
    if (!parts)
        return false;
    for (int r = 0; r < size; r++) {
        int64_t count = shim_list_entry(call->counts, call->large, r);

        parts[r] = (uint32_t)((uint64_t)next * words);
        if (count > 0 && shim_list_entry(call->displs, call->large, r) != next)
            return false;
        next += count;
    }
    parts[size] = (uint32_t)((uint64_t)next * words);
    return true;
}

static bool aligned(const void *buffer, size_t word)
{
    return (uintptr_t)buffer % word == 0;
}

static bool apart(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    return (uintptr_t)a >= (uintptr_t)b + b_bytes || (uintptr_t)b >= (uintptr_t)a + a_bytes;
}

/* Returns true if a datatype is committed. The MPI library reports one that is not. */
static bool is_usable(const struct shim_task *task, uintptr_t type)
{
    return !shim_is_derived(type) || shim_type_is_committed(type, task->comm);
}

static bool gathers(struct shim_task *task, uint64_t bytes)
{
    const struct shim_call *call = &task->call;
    struct shim_content *content = &task->content;
    size_t word = 0, send_word = 0;
    uint64_t words = words_of(call->type, &word), own;
    int rank = task->comm->rank;

    if (words == 0 || !call->recv || !aligned(call->recv, word) || !is_usable(task, call->type))
        return false;
    task->type = word == 4 ? SS_I32 : SS_I64;
    content->words = bytes / word;
    if (call->counts && !slices(task, words))
        return false;
    if (shim_in_place(call))
        return true;
    if (!is_usable(task, call->send_type))
        return false;
    own = content->parts ? content->parts[rank + 1] - content->parts[rank]
                         : content->words / (uint64_t)task->comm->size;
    return own == 0 || (words_of(call->send_type, &send_word) * (uint64_t)call->send_count == own &&
                        send_word == word && call->send && aligned(call->send, word) &&
                        apart(call->send, own * word, call->recv, bytes));
}

static bool reduces(struct shim_task *task, uint64_t bytes)
{
    const struct shim_call *call = &task->call;
    size_t word = ss_type_size(task->type);
    bool gets = call->kind != SS_KIND_REDUCE || call->root == task->comm->rank;
    uint64_t out =
        call->kind == SS_KIND_REDUCE_SCATTER ? bytes / (uint64_t)task->comm->size : bytes;

    task->content.words = bytes / word;
    if (gets && (!call->recv || !aligned(call->recv, word) || call->recv == MPI_IN_PLACE))
        return false;
    if (shim_in_place(call))
        return gets;
    return call->send && aligned(call->send, word) &&
           (!gets || apart(call->send, bytes, call->recv, out));
}

void shim_layout(struct shim_task *task)
{
    struct shim_content *content = &task->content;
    const bool leaves = shim_leaves(task->call.send, task->call.recv);
    uint64_t bytes;

    content->cannot = leaves;
    if (task->call.kind == SS_KIND_ALLREDUCE)
        return;
    bytes = shim_bytes(&task->call, task->comm->size);
    if (task->call.kind == SS_KIND_ALLGATHER) {
        /* a rank that cannot be served only knows the number of bytes */
        task->type = SS_I32;
        content->words = bytes / 4;
        content->cannot = leaves || bytes % 4 != 0 || !gathers(task, bytes);
    } else {
        content->cannot = !reduces(task, bytes) || leaves;
    }
}

/* Makes a datatype of the same extent and contents as one that the application can free. */
static void keep(uintptr_t *type, MPI_Datatype *kept)
{
    if (!shim_is_derived(*type) ||
        shim_real.Type_contiguous(1, (MPI_Datatype)*type, kept) != MPI_SUCCESS)
        return;
    shim_real.Type_commit(kept);
    *type = (uintptr_t)*kept;
}

static bool keep_lists(struct shim_task *task)
{
    struct shim_call *call = &task->call;
    size_t bytes = (size_t)task->comm->size * (call->large ? sizeof(int64_t) : sizeof(int));
    char *lists;

    if (!call->counts || !(call->displs || call->user))
        return true;
    task->content.lists = lists = malloc(2 * bytes);
    if (!lists)
        return false;
    memcpy(lists, call->counts, bytes);
    call->counts = lists;
    if (call->user)
        return true;
    memcpy(lists + bytes, call->displs, bytes);
    call->displs = lists + bytes;
    return true;
}

static void keep_types(struct shim_task *task)
{
    uintptr_t type = task->call.type;

    if (task->call.user) /* an operator gets the program's own handle, which the copy keeps valid */
        keep(&type, &task->content.kept[0]);
    if (task->call.kind != SS_KIND_ALLGATHER)
        return;
    keep(&task->call.type, &task->content.kept[0]);
    if (!shim_in_place(&task->call))
        keep(&task->call.send_type, &task->content.kept[1]);
}

bool shim_layout_keep(struct shim_task *task)
{
    if (!keep_lists(task))
        return false;
    keep_types(task);
    return true;
}

void shim_layout_let_go(struct shim_content *content)
{
    for (int i = 0; i < 2; i++)
        if (content->kept[i] != MPI_DATATYPE_NULL)
            shim_real.Type_free(&content->kept[i]);
}
