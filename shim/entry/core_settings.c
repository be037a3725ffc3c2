/* Options as core has them. Names that stand for numbers have one order in config/ and core/. */
#include "shim/entry/core_settings.h"

#include <unistd.h>

#include "shim/mpi/state.h"

#define SAME(option, ours) _Static_assert((int)(option) == (int)(ours), #option)
SAME(CFG_ALGORITHM_AUTO, SS_AUTO);
SAME(CFG_ALGORITHM_RECURSIVE_DOUBLING, SS_RECURSIVE_DOUBLING);
SAME(CFG_ALGORITHM_SPLIT_ALLGATHER, SS_SPLIT_ALLGATHER);
SAME(CFG_ALGORITHM_DSAR, SS_DSAR);
SAME(CFG_ALGORITHM_RING, SS_RING);
SAME(CFG_ALGORITHM_ALLGATHER, SS_ALLGATHER);
SAME(CFG_ALGORITHM_OKTOPK, SS_OKTOPK);
SAME(CFG_ALGORITHM_GTOPK, SS_GTOPK);
SAME(CFG_ALGORITHM_DENSE, SS_DENSE);
SAME(CFG_CODING_AUTO, SS_CODING_AUTO);
SAME(CFG_CODING_U32, SS_CODING_U32);
SAME(CFG_CODING_PACKED, SS_CODING_PACKED);
SAME(CFG_CODING_BITMAP, SS_CODING_BITMAP);
SAME(CFG_IDENTITY_AUTO, SS_IDENTITY_AUTO);
SAME(CFG_IDENTITY_ADDRESS, SS_IDENTITY_ADDRESS);
SAME(CFG_IDENTITY_SITE, SS_IDENTITY_SITE);
SAME(CFG_IDENTITY_ORDINAL, SS_IDENTITY_ORDINAL);
SAME(CFG_VALUES_SAME, SS_VALUES_SAME);
SAME(CFG_VALUES_BF16, SS_VALUES_BF16);
SAME(CFG_VALUES_Q8, SS_VALUES_Q8);
SAME(CFG_VALUES_Q4, SS_VALUES_Q4);
SAME(CFG_VALUES_Q2, SS_VALUES_Q2);
SAME(CFG_QUANT_2 - CFG_QUANT_8, SS_VALUES_Q2 - SS_VALUES_Q8);
SAME(CFG_PARTITION_QUANTILE, SS_PARTITION_QUANTILE);
SAME(CFG_PARTITION_AVERAGE, SS_PARTITION_AVERAGE);
SAME(CFG_PARTITION_EQUAL, SS_PARTITION_EQUAL);
SAME(CFG_GUARD_OFF, SS_GUARD_OFF);
SAME(CFG_GUARD_WARN, SS_GUARD_WARN);
SAME(CFG_GUARD_EXACT, SS_GUARD_EXACT);

/* Equal on the ranks of a host, as far as host names are. */
static uint64_t host_number(void)
{
    char name[256] = "";
    uint64_t h = 1;

    if (gethostname(name, sizeof name - 1) != 0)
        return 0;
    for (const char *at = name; *at; at++)
        h = ss_mix(h, (unsigned char)*at);
    return h;
}

/* Seconds after which a wait inside of a call is told: longer than ranks are usually apart. */
#define PATIENCE 30.0

static enum ss_values quant_of(enum cfg_quant bits)
{
    int narrow = (int)SS_VALUES_Q8 + ((int)bits - (int)CFG_QUANT_8);

    return bits == CFG_QUANT_OFF ? SS_VALUES_SAME : (enum ss_values)narrow;
}

struct ss_settings shim_settings_of(const struct cfg *cfg, const struct cfg_options *options)
{
    return (struct ss_settings){
        .values = (enum ss_values)options->value_type,
        .quant = quant_of(options->quant_bits),
        .quant_feedback = options->quant_feedback,
        .quant_bucket = (uint32_t)options->quant_bucket,
        .repartition_period = options->repartition_period,
        .partition = (enum ss_partition)options->partition,
        .guard = (enum ss_guard)options->guard,
        .residual_scale = options->residual_scale == CFG_SWITCH_AUTO,
        .seed = options->seed,
        .topk = options->mode == CFG_MODE_TOPK,
        .density = options->density.density,
        .k = options->density.k,
        .bucket = options->density.bucket,
        .warmup_steps = options->warmup_steps,
        .tensors = {.identity = (enum ss_identity)options->identity,
                    .register_after = options->register_after,
                    .threshold_period = (size_t)options->threshold_period},
        .observe = options->mode == CFG_MODE_OBSERVE,
        .algorithm = (enum ss_algorithm)options->algorithm,
        .coding = (enum ss_coding)options->index_coding,
        .alpha = options->alpha,
        .beta = options->beta,
        .reproducible = options->reproducible,
        .host = host_number(),
        .timeout = options->timeout,
        .patience = PATIENCE,
        .hash = cfg_hash_shared(cfg) + SHIM_PROTOCOL,
    };
}
