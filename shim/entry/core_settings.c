/* Translates options into core's settings. */
#include "shim/entry/core_settings.h"

#include <fcntl.h>
#include <unistd.h>

#include "shim/mpi/state.h"

static uint64_t mix_text(uint64_t h, const char *text)
{
    for (const char *at = text; *at; at++)
        h = ss_mix(h, (unsigned char)*at);
    return h;
}

/* Reads the number that the kernel draws when it starts; "" if there is none. */
static void read_boot_id(char *text, size_t size)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd >= 0 ? read(fd, text, size - 1) : 0;

    text[length > 0 ? length : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* Returns a number that is equal on the ranks of a host: a hash of its name and its boot id, since
 * hosts may share a name. */
static uint64_t host_number(void)
{
    char name[256] = "", boot[64];

    if (gethostname(name, sizeof name - 1) != 0)
        return 0;
    read_boot_id(boot, sizeof boot);
    return mix_text(mix_text(1, name), boot);
}

/* Seconds after which a wait inside a call logs a warning; ranks are usually less apart. */
#define PATIENCE 30.0

struct ss_settings shim_settings_of(const struct cfg *cfg, const struct cfg_options *options)
{
    const struct cfg_forced *forced = cfg_forced(cfg);
    const bool learn = options->mode == CFG_MODE_LEARN; /* nothing is served */

    return (struct ss_settings){
        .value_type = options->value_type,
        .quant_bucket = SS_BUCKET,
        .repartition_period = SS_REPARTITION_PERIOD,
        .guard = options->guard,
        .topk = cfg_is_lossy(options),
        .density = options->density.density,
        .k = options->density.k,
        .bucket = options->density.bucket,
        .warmup_steps = options->warmup_steps,
        .quorum = learn ? SS_QUORUM_ALL : options->quorum,
        .quorum_period = forced->quorum_period,
        .quorum_staleness = forced->quorum_staleness,
        .tensors = {.identity = {.by_rule = options->quorum != SS_QUORUM_ALL,
                                 .steps = (unsigned)forced->identity_steps},
                    .threshold_period = (size_t)forced->threshold_period},
        .observe = options->mode == CFG_MODE_OBSERVE,
        .algorithm = options->algorithm,
        .aggregation = options->node_aggregation,
        .alpha = options->alpha,
        .beta = options->beta,
        .reproducible = options->reproducible,
        .host = host_number(),
        .timeout = options->timeout,
        .patience = PATIENCE,
        .series = options->report != CFG_REPORT_OFF && options->report_dir && *options->report_dir,
        .in_flight = (unsigned)forced->in_flight,
        .merge = learn ? 0 : options->merge,
        .decisions = options->debug >= CFG_DEBUG_INFO,
        .hash = cfg_hash_shared(cfg) + SHIM_PROTOCOL,
    };
}
