/* Options of earlier versions, each with what replaced it. */
#include "config/parts.h"

static const struct {
    const char *name, *instead;
} removed[] = {
    {"IDENTITY", "a rule of SPARSESHIM_REGISTER with site= tells the buffers of call sites apart"},
    {"IN_FLIGHT", "up to 8 nonblocking calls of a communicator are in flight at once"},
    {"INDEX_CODING", "each message takes the smallest coding of its positions"},
    {"MERGE_SELECT", "each call of a merged group selects its own entries"},
    {"PARTITION", "oktopk divides the index space at quantiles of all ranks' entries"},
    {"QUANT_BITS", "SPARSESHIM_VALUE_TYPE takes q8, q4 and q2, for both phases of dsar"},
    {"QUANT_FEEDBACK", "SPARSESHIM_VALUE_TYPE=qsgd8, qsgd4 or qsgd2 rounds at random"},
    {"QUANT_BUCKET",
     "a scale is shared by 128 consecutive values in MODE=quant, by 1024 otherwise"},
    {"QUORUM_LOOK", "a rank that computes looks for a round every 250 us"},
    {"QUORUM_PERIOD", "one call in 64 of a buffer is with all ranks"},
    {"QUORUM_STALENESS", "up to 8 results of a buffer wait for a late rank"},
    {"REGISTER_AFTER", "calls=N in a rule of SPARSESHIM_REGISTER gives the calls of a step, and "
                       "the sum is lossy from the fourth step on"},
    {"REPARTITION_PERIOD", "oktopk divides the index space every 64 calls of a buffer"},
    {"RESIDUAL_SCALE", "divide gradients by the scale before the allreduce, name the buffer in "
                       "SPARSESHIM_EXCLUDE, or call sparseshim_scale_residual"},
    {"SEED", "random rounding and the lots of SPARSESHIM_QUORUM=majority are the same in each job"},
    {"THRESHOLD_PERIOD", "the threshold of a buffer is selected exactly every 32 calls"},
};

const char *cfg_removed(const char *name)
{
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++)
        if (cfg_same(removed[i].name, name))
            return removed[i].instead;
    return NULL;
}
