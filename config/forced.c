/* SPARSESHIM_TEST=name=value,... sets constants that tests vary and no option sets. */
#include "config/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
    uint64_t standard, most;
} values[] = {
    {"in_flight", offsetof(struct cfg_forced, in_flight), SS_IN_FLIGHT, SS_IN_FLIGHT},
    {"quorum_period", offsetof(struct cfg_forced, quorum_period), SS_QUORUM_PERIOD, UINT64_MAX},
    {"quorum_staleness", offsetof(struct cfg_forced, quorum_staleness), SS_QUORUM_STALENESS, 1024},
    {"threshold_period", offsetof(struct cfg_forced, threshold_period), SS_THRESHOLD_PERIOD,
     UINT64_MAX},
    {"layout", offsetof(struct cfg_forced, layout), 0, UINT64_MAX},
    {"slice", offsetof(struct cfg_forced, slice), SS_SLICE_LEAST, UINT64_MAX},
    {"identity_steps", offsetof(struct cfg_forced, identity_steps), SS_IDENTITY_STEPS,
     SS_IDENTITY_STEPS},
};
enum { VALUES = sizeof values / sizeof values[0] };

static void put(struct cfg *cfg, size_t i, uint64_t value)
{
    memcpy((char *)&cfg->forced + values[i].offset, &value, sizeof value);
}

/* Takes over "name=value"; false if there is no such name or value. */
static bool take(struct cfg *cfg, const char *word)
{
    size_t length = strcspn(word, "=");
    uint64_t value;

    for (size_t i = 0; word[length] == '=' && i < VALUES; i++) {
        if (strlen(values[i].name) != length || strncmp(values[i].name, word, length) != 0)
            continue;
        if (!cfg_number_count(word + length + 1, &value) || value < 1 || value > values[i].most)
            return false;
        put(cfg, i, value);
        return true;
    }
    return false;
}

void cfg_force(struct cfg *cfg)
{
    const char *list = secure_getenv(CFG_TEST);
    char word[64];

    for (size_t i = 0; i < VALUES; i++)
        put(cfg, i, values[i].standard);
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");
        int n = snprintf(word, sizeof word, "%.*s", (int)length, list);
        if (n > 0 && (n >= (int)sizeof word || !take(cfg, word)))
            cfg_say(cfg, true, "SPARSESHIM_TEST: %s is not known", word);
        list += length;
        list += *list == ',';
    }
}

const struct cfg_forced *cfg_forced(const struct cfg *cfg)
{
    return &cfg->forced;
}
