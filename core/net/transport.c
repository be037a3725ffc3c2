/* Defines the names of the phases. */
#include "core/net/transport.h"

const char *ss_phase_name(enum ss_phase phase)
{
    static const char *const names[SS_PHASES] = {
        "vote",      "calibration",   "fold in",   "exchange",      "fold out",
        "allgather", "word exchange", "balancing", "kept elements", "round start"};
    return names[phase];
}
