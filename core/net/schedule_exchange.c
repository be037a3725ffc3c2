/* Runs one pair exchange after the other: posts its two messages, waits for both, hands them to the
 * caller. */
#include "core/net/schedule_exchange.h"

void ss_schedule_exchange_start(struct ss_schedule_exchange *m, struct ss_transport *t)
{
    *m = (struct ss_schedule_exchange){
        .t = t, .schedule = ss_schedule_of(t->rank, t->size, t->layout), .peer = -1};
}

int ss_schedule_exchange_send(struct ss_schedule_exchange *m, int peer, struct ss_tag tag,
                              const void *msg, size_t len)
{
    int status = SS_ERR_TRANSPORT;

    m->peer = peer;
    for (int attempt = 0; status != SS_OK && attempt < 2; attempt++)
        status = m->t->ops->send(m->t, peer, tag, msg, len, &m->send);
    return status;
}

int ss_schedule_exchange_recv(struct ss_schedule_exchange *m, int peer, struct ss_tag tag,
                              void *buffer, size_t capacity)
{
    m->peer = peer;
    return m->t->ops->recv(m->t, peer, tag, buffer, capacity, &m->recv);
}

int ss_schedule_exchange_step(struct ss_schedule_exchange *m,
                              const struct ss_schedule_exchange_steps *parts, void *context,
                              bool *moved)
{
    struct ss_pair_exchange now;
    int status;

    while (ss_schedule_now(&m->schedule, &now)) {
        if (!m->waiting) {
            m->send = m->recv = (struct ss_request){0};
            if ((status = parts->post(context, m, &now)) != SS_OK)
                return status;
            m->waiting = true;
        }
        if (m->send.active || m->recv.active)
            return SS_PENDING;
        m->waiting = false;
        *moved = true;
        if ((status = parts->take(context, m, &now)) != SS_OK)
            return status;
        m->peer = -1;
        ss_schedule_next(&m->schedule);
    }
    return SS_OK;
}

void ss_schedule_exchange_cancel(struct ss_schedule_exchange *m)
{
    if (m->recv.active)
        m->t->ops->cancel(m->t, &m->recv);
    if (m->send.active)
        m->t->ops->cancel(m->t, &m->send);
}
