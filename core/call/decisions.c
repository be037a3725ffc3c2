/* What DEBUG=info tells of a communicator's decisions: one line each, by its first rank, as the
 * votes make them the same on all. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fpenv.h"
#include "core/call/call_impl.h"

static bool tells(const struct ss_comm *comm)
{
    return comm->settings->decisions && comm->t->rank == 0;
}

/* Lines wait for ss_comm_decision, one behind the other. */
static void note(struct ss_comm *comm, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct ss_comm *comm, const char *format, ...)
{
    size_t used = strlen(comm->decisions), room = sizeof comm->decisions - used;
    struct ss_fpenv_full saved;
    va_list values;
    int length;

    va_start(values, format);
    ss_fpenv_enter_full(&saved);
    length = vsnprintf(comm->decisions + used, room, format, values);
    ss_fpenv_leave_full(&saved);
    va_end(values);
    if (length < 0 || (size_t)length + 1 >= room)
        comm->decisions[used] = '\0';
    else
        memcpy(comm->decisions + used + length, "\n", 2);
}

bool ss_comm_decision(struct ss_comm *comm, char *text, size_t size)
{
    size_t length = strcspn(comm->decisions, "\n");

    if (length == 0)
        return false;
    snprintf(text, size, "%.*s", (int)length, comm->decisions);
    memmove(comm->decisions, comm->decisions + length + 1, strlen(comm->decisions + length));
    return true;
}

static const char *name_of(const struct ss_comm *comm)
{
    return comm->name[0] ? comm->name : "an unnamed communicator";
}

/* ---- the collective of a lane ---- */

/* Where two are as fast as each other plans go to and fro: a change is logged once it has lasted.
 */
enum { LASTED = 3 };

static bool has_changed(struct ss_lane *lane, const struct ss_plan *plan)
{
    if (!plan->settled)
        return false;
    if (plan->algorithm == lane->logged) {
        lane->changed = 0;
        return false;
    }
    return ++lane->changed >= LASTED || lane->logged == SS_AUTO;
}

void ss_log_plan(struct ss_call *call)
{
    const struct ss_coll *c = &call->f.c;
    struct ss_comm *comm = call->f.comm;
    const struct ss_plan *plan = &call->plan;
    enum ss_algorithm from = call->f.lane->logged, to = plan->algorithm;
    char before[80] = "";

    if (!tells(comm) || !has_changed(call->f.lane, plan))
        return;
    call->f.lane->logged = to;
    call->f.lane->changed = 0;
    if (from == SS_AUTO)
        from = SS_DENSE;
    if (to != from && plan->seconds[from] >= 0) /* it can run still */
        snprintf(before, sizeof before, ", %s %.3g ms", ss_algorithm_name(from),
                 1e3 * plan->seconds[from]);
    note(comm, "%s of %llu %s %s on %s: %s by call %llu, predicted %.3g ms%s",
         ss_kind_name(c->kind), (unsigned long long)c->x.n, ss_type_name(c->x.type),
         ss_op_name(c->op), name_of(comm), ss_algorithm_name(to), (unsigned long long)call->number,
         1e3 * plan->seconds[to], before);
}

/* ---- tensors ---- */

static void tell(struct ss_comm *comm, const struct ss_tensor *t, const char *what, const char *why)
{
    note(comm, "lossy: %llu %s called from %s%s%s on %s: %s from its call %llu on: %s",
         (unsigned long long)t->n, ss_type_name(t->type),
         t->site_name[0] ? t->site_name : "an unknown place", t->symbol[0] ? " in " : "", t->symbol,
         name_of(comm), what, (unsigned long long)t->calls, why);
}

static void tell_admitted(struct ss_comm *comm, const struct ss_tensor *t)
{
    const char *rests = t->rest != SS_AWAKE ? "; it rests until a plan is sparse" : "";
    const char *holds = t->range.by_host ? "; one residual per host" : "";
    char why[240];

    if (t->rule)
        snprintf(why, sizeof why, "REGISTER has %.150s%s%s", t->rule->text, holds, rests);
    else
        snprintf(why, sizeof why, "the program has registered it%s%s", holds, rests);
    tell(comm, t, "admitted", why);
}

void ss_log_tensor(struct ss_feedback *f)
{
    struct ss_tensor *t = f->tensor;
    struct ss_comm *comm = f->comm;

    if (!t || !tells(comm) || t->state == SS_TENSOR_CANDIDATE)
        return;
    bool registered = t->state == SS_TENSOR_REGISTERED;
    struct ss_tensor_logged now = {t->state, t->reason, registered && t->rest != SS_AWAKE};
    if (registered && t->logged.state != now.state)
        tell_admitted(comm, t);
    else if (!registered && (t->logged.state != now.state || t->logged.reason != now.reason))
        tell(comm, t, "exact", ss_tensor_reason_name(t->reason));
    else if (registered && now.rests != t->logged.rests)
        tell(comm, t, now.rests ? "resting" : "awake",
             now.rests ? "dense is faster" : "a plan is sparse");
    t->logged = now;
}
