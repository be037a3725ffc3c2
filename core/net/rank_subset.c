/* Implements subsets: messages go through the communicator's transport, under its ranks. */
#include "core/net/rank_subset.h"

static struct ss_subset *subset_of(struct ss_transport *t)
{
    return (struct ss_subset *)t;
}

int ss_subset_rank(const struct ss_subset *s, int rank)
{
    const struct ss_layout *l = s->layout;

    return s->host >= 0 ? l->ranks[l->first[s->host] + rank]
                        : ss_layout_owner(l, rank, s->slice, s->slices);
}

static int send(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf, size_t len,
                struct ss_request *request)
{
    const struct ss_subset *s = subset_of(t);

    return s->all->ops->send(s->all, ss_subset_rank(s, dst), tag, buf, len, request);
}

static int recv(struct ss_transport *t, int src, struct ss_tag tag, void *buf, size_t capacity,
                struct ss_request *request)
{
    const struct ss_subset *s = subset_of(t);

    return s->all->ops->recv(s->all, ss_subset_rank(s, src), tag, buf, capacity, request);
}

static int poll(struct ss_transport *t)
{
    const struct ss_subset *s = subset_of(t);

    return s->all->ops->poll(s->all);
}

static void cancel(struct ss_transport *t, struct ss_request *request)
{
    const struct ss_subset *s = subset_of(t);

    s->all->ops->cancel(s->all, request);
}

static double now(struct ss_transport *t)
{
    const struct ss_subset *s = subset_of(t);

    return s->all->ops->now(s->all);
}

static const struct ss_transport_ops ops = {send, recv, poll, cancel, now};

void ss_subset_of_host(struct ss_subset *s, struct ss_transport *all,
                       const struct ss_layout *layout)
{
    const int host = layout->host[all->rank];

    *s = (struct ss_subset){.t = {.rank = layout->local[all->rank],
                                  .size = ss_layout_count(layout, host),
                                  .ops = &ops,
                                  .calls = all->calls},
                            .all = all,
                            .layout = layout,
                            .host = host};
}

void ss_subset_of_slice(struct ss_subset *s, struct ss_transport *all,
                        const struct ss_layout *layout, int slice, int slices)
{
    *s = (struct ss_subset){.t = {.rank = layout->host[all->rank],
                                  .size = layout->hosts,
                                  .ops = &ops,
                                  .calls = all->calls},
                            .all = all,
                            .layout = layout,
                            .host = -1,
                            .slice = slice,
                            .slices = slices};
}
