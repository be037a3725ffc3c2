/* Steps the messages: to the first rank of the host, between hosts, back. */
#include "core/trial/dense_hosts.h"

void ss_dense_hosts_start(struct ss_dense_hosts *d, struct ss_transport *t,
                          const struct ss_layout *layout, uint64_t n, size_t esize)
{
    *d = (struct ss_dense_hosts){.bytes = (size_t)n * esize, .peer = 1};
    ss_subset_of_host(&d->host, t, layout);
    if (d->host.t.rank > 0)
        return;
    ss_subset_of_slice(&d->firsts, t, layout, 0, 1);
    ss_rabenseifner_start(&d->between, &d->firsts.t, n, esize);
}

static int send_vector(struct ss_dense_hosts *d, int to)
{
    const struct ss_tag tag = {.call = 1, .phase = SS_PHASE_GATHER};

    return d->host.t.ops->send(&d->host.t, to, tag, NULL, d->bytes, &d->sent);
}

/* Receives a vector from a rank of this host. */
static int receive_vector(struct ss_dense_hosts *d, int from)
{
    const struct ss_tag tag = {.call = 1, .phase = SS_PHASE_GATHER};
    int status = SS_OK;

    if (!d->posted)
        status = d->host.t.ops->recv(&d->host.t, from, tag, NULL, d->bytes, &d->received);
    d->posted = true;
    if (status == SS_OK)
        status = d->host.t.ops->poll(&d->host.t);
    if (status == SS_OK && d->received.active)
        return SS_PENDING;
    d->posted = false;
    return status == SS_OK ? d->received.status : status;
}

/* Steps the first rank of a host. */
static int step_first(struct ss_dense_hosts *d)
{
    int status;

    if (d->peer < d->host.t.size) {
        status = receive_vector(d, d->peer);
        if (status != SS_OK)
            return status;
        d->peer++;
        return SS_PENDING; /* the caller lets time pass for the sum */
    }
    status = ss_rabenseifner_step(&d->between);
    if (status != SS_OK)
        return status;
    for (int to = 1; status == SS_OK && to < d->host.t.size; to++)
        status = send_vector(d, to);
    return status;
}

int ss_dense_hosts_step(struct ss_dense_hosts *d)
{
    int status = SS_OK;

    if (d->host.t.rank == 0)
        return step_first(d);
    if (!d->handed)
        status = send_vector(d, 0);
    d->handed = true;
    return status == SS_OK ? receive_vector(d, 0) : status;
}
