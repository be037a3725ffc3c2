/* Steps between marks. */
#include "core/identity/identity_impl.h"

#include <string.h>

enum { SAME = 2, KEPT = 2, STRIKES = 3, SILENT_STEPS = 3, LONGEST = SS_MARKS_APART };

static void end_step(struct ss_marking *m)
{
    const uint32_t distance = m->since <= LONGEST ? m->since : 0;

    m->ended++;
    m->same = distance > 0 && distance == m->distance ? m->same + 1 : 1;
    m->distance = distance;
    m->strikes = distance == m->step ? 0 : m->strikes + 1;
    m->cut = distance > 0 && distance < m->step;
    if (m->disordered && (m->step == 0 || distance == m->step)) {
        m->step = 0;
        m->same = 0;
    } else if (distance > 0 && m->same >= SAME && distance != m->step) {
        m->step = distance;
        m->strikes = 0;
        m->cut = false;
    } else if (m->strikes >= STRIKES) {
        m->step = 0;
    }
}

/* A mark before the first call begins a step, but no call waits for it. The calls before the first
 * mark may be a part of a step. */
uint32_t ss_marking_next(struct ss_marking *m, uint64_t marks, uint32_t *place)
{
    if (marks != m->marks) {
        if (m->seen)
            end_step(m);
        m->seen = true;
        m->came = m->begun;
        m->since = 0;
    }
    m->marks = marks;
    m->begun = true;
    *place = m->since;
    if (m->since < UINT32_MAX)
        m->since++;
    if (m->since > SILENT_STEPS * m->step)
        m->step = 0;
    m->apart = m->apart || (m->came && m->since > LONGEST);
    return m->step;
}

/* After a call that does not fit, the buffers are learnt anew. */
bool ss_marking_fits(struct ss_marking *m, uint32_t place, const void *address, bool ordered)
{
    const bool settled = m->step > 0 && m->kept >= KEPT * m->step;

    if (place == 0)
        m->strayed = m->disordered = false;
    if (m->step == 1 || place >= LONGEST) /* one tensor, wherever it lies */
        return true;
    if (m->strayed)
        return false;
    if (m->seats[place] == address) {
        m->kept++;
        return true;
    }
    for (uint32_t i = place + 1; ordered && i < LONGEST; i++)
        m->disordered = m->disordered || m->seats[i] == address;
    m->strayed = m->disordered || settled;
    m->kept = 0;
    if (m->strayed)
        memset(m->seats, 0, sizeof m->seats);
    else
        m->seats[place] = address;
    return !m->strayed;
}

bool ss_marking_may_begin(const struct ss_marking *m)
{
    return !m->came && m->since <= LONGEST;
}

bool ss_marking_is_open(const struct ss_marking *m)
{
    return m->came && m->step == 0 && m->ended <= SAME && !m->apart;
}
