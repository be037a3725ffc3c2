/* The transitions of the residual in a call. Claims that are out of the residual are committed or
 * return. */
#include "core/feedback/feedback.h"

static const struct {
    enum ss_topk_event event;
    enum ss_topk_state from, to;
} transitions[] = {
    {SS_ON_CANNOT, SS_TOPK_NONE, SS_TOPK_CANNOT},
    {SS_ON_LOSSY, SS_TOPK_NONE, SS_TOPK_SELECTS},
    {SS_ON_REST, SS_TOPK_SELECTS, SS_TOPK_RESTS},
    {SS_ON_CLAIMED, SS_TOPK_SELECTS, SS_TOPK_CLAIMED},
    {SS_ON_CLAIMED, SS_TOPK_AGREED, SS_TOPK_SENDS},
    {SS_ON_VOTE, SS_TOPK_SELECTS, SS_TOPK_AGREED}, /* one residual per host: sums come first */
    {SS_ON_VOTE, SS_TOPK_CLAIMED, SS_TOPK_SENDS},
    {SS_ON_WAKE, SS_TOPK_RESTS, SS_TOPK_AGREED},
    {SS_ON_JOIN, SS_TOPK_NONE, SS_TOPK_JOINED}, /* exact tensors, and claims that have returned */
    {SS_ON_JOIN, SS_TOPK_RESTS, SS_TOPK_JOINED},
    {SS_ON_COMMIT, SS_TOPK_SENDS, SS_TOPK_SENT},
    {SS_ON_RETURN, SS_TOPK_CLAIMED, SS_TOPK_NONE},
    {SS_ON_RETURN, SS_TOPK_SENDS, SS_TOPK_NONE},
    {SS_ON_LEAVE, SS_TOPK_SELECTS, SS_TOPK_NONE},
    {SS_ON_LEAVE, SS_TOPK_RESTS, SS_TOPK_NONE},
    {SS_ON_LEAVE, SS_TOPK_JOINED, SS_TOPK_NONE},
};

bool ss_topk_move(enum ss_topk_state *state, enum ss_topk_event event)
{
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
        if (transitions[i].event == event && transitions[i].from == *state) {
            *state = transitions[i].to;
            return true;
        }
    return false;
}
