/* Top-k with error feedback (SparCML, Algorithm 1) over the MPI library's own allreduce, with one
 * defect on request: what a convergence test must be able to see. To be preloaded in place of the
 * library under test.
 *
 * WRONG_TOPK      none: right, the reference; drop: what is not sent is forgotten; swap: it goes to
 *                 the residual of another tensor, the next one of the step; of a program with one
 *                 tensor, to other elements
 * WRONG_DENSITY   share of the elements that each rank sends (default 0.015625)
 * WRONG_MIN_COUNT elements from which a float sum is taken for a gradient (default 1024) */
#include "tests/preload/topk_exact.h"

enum wrong { NONE, DROP, SWAP, WRONGS, UNREAD = WRONGS };

static struct gradient *gradients;

static enum wrong wanted(void)
{
    static const char *const names[WRONGS] = {"none", "drop", "swap"};
    static enum wrong found = UNREAD;
    const char *text = getenv("WRONG_TOPK");

    for (int i = 0; found == UNREAD && i < WRONGS; i++)
        if (strcmp(text ? text : "none", names[i]) == 0)
            found = (enum wrong)i;
    if (found == UNREAD)
        topk_die("WRONG_TOPK is none, drop or swap", text);
    return found;
}

/* The tensor that came after it, the first after the last: the list has the newest first. */
static struct gradient *after(const struct gradient *g)
{
    struct gradient *next = gradients;

    while (next->next && next->next != g)
        next = next->next;
    return next;
}

/* What stays behind, where a next call will take it; what has no place in a shorter tensor stays at
 * home. The shift is no divisor of the count, so that what was misplaced does not soon come home.
 */
static void keep_rest(struct gradient *g, enum wrong wrong)
{
    struct gradient *to = wrong == SWAP ? after(g) : g;
    int shift = wrong == SWAP && to == g ? g->count / 3 + 1 : 0;

    memset(g->residual, 0, (size_t)g->count * sizeof *g->residual);
    for (int i = 0; i < g->count; i++) {
        struct gradient *taker = i < to->count ? to : g;

        if (wrong != DROP && g->sent[i] == 0)
            taker->residual[(i + shift) % taker->count] += g->total[i];
    }
}

EXPORT int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm)
{
    struct gradient *g;

    if (!topk_takes(count, type, op, (long)topk_number("WRONG_MIN_COUNT", 0, 1e9, 1024)))
        return PMPI_Allreduce(in, out, count, type, op, comm);
    g = topk_gradient(&gradients, __builtin_return_address(0), out, count);
    topk_select(g, in == MPI_IN_PLACE ? out : in, topk_number("WRONG_DENSITY", 0, 1, 0.015625));
    keep_rest(g, wanted());
    return PMPI_Allreduce(g->sent, out, count, type, op, comm);
}

EXPORT int MPI_Finalize(void)
{
    topk_free(&gradients);
    return PMPI_Finalize();
}
