/* Tells from the options, as they are set here, how jobs of this user would be served. */
#include <stdio.h>

#include "config/config.h"
#include "shim/cli/cli.h"

static const char site[] = "ask who looks after this cluster; `sparseshim info` lists the files";

const char *cli_source(const struct cfg_row *row, char text[CLI_SOURCE])
{
    snprintf(text, CLI_SOURCE, "%s%s", row->locked != NULL ? "locked by " : "",
             row->locked != NULL ? row->locked : cfg_source_name(row->source));
    return text;
}

/* Writes where DISABLE=on comes from, and returns what to do. */
static const char *disabled(const struct cfg *cfg, char *why, size_t size)
{
    struct cfg_row row;
    char source[CLI_SOURCE];

    cfg_row(cfg, cfg_find("DISABLE"), &row);
    snprintf(why, size, "DISABLE is on (%s)", cli_source(&row, source));
    return row.source == CFG_FROM_ENVIRONMENT
               ? "unset SPARSESHIM_DISABLE"
               : "set SPARSESHIM_DISABLE=off, or change that file; `sparseshim info` lists it";
}

const char *cli_switched_off(char *why, size_t size)
{
    struct cfg *cfg = cfg_load();
    const char *advice = NULL, *where;
    bool for_all = false;

    if (cfg == NULL)
        return NULL;
    if ((where = cfg_misread_policy(cfg)) != NULL) {
        snprintf(why, size, "the site's policy cannot be understood: %s", where);
        advice = site;
    } else if ((where = cfg_turned_off(cfg, &for_all)) != NULL) {
        snprintf(why, size, "%s: %s",
                 for_all ? "the site has switched this library off for all jobs"
                         : "no mode is allowed that does as little as MODE asks for",
                 where);
        advice = for_all ? site : "set SPARSESHIM_MODE to a mode that the file allows";
    } else if (cfg_options(cfg)->disable) {
        advice = disabled(cfg, why, size);
    }
    cfg_free(cfg);
    return advice;
}

const char *cli_left_out(const char *name, char *why, size_t size)
{
    struct cfg *cfg = cfg_load();
    const char *advice = NULL;
    struct cfg_row row;
    char source[CLI_SOURCE];

    if (cfg != NULL && !cfg_serves(cfg_options(cfg)->programs, name)) {
        cfg_row(cfg, cfg_find("PROGRAMS"), &row);
        snprintf(why, size, "PROGRAMS=%s (%s) leaves %s out", CFG_SHOWN(row.value),
                 cli_source(&row, source), name);
        advice = row.locked != NULL ? site : "add the name to PROGRAMS, or leave PROGRAMS empty";
    }
    cfg_free(cfg);
    return advice;
}

bool cli_redirects_torch(void)
{
    struct cfg *cfg = cfg_load();
    const bool redirects = cfg == NULL || cfg_options(cfg)->torch;

    cfg_free(cfg);
    return redirects;
}

bool cli_asks_for_nonblocking(void)
{
    struct cfg *cfg = cfg_load();
    bool asks = false;

    if (cfg != NULL) {
        const struct cfg_options *o = cfg_options(cfg);
        asks = o->progress == CFG_PROGRESS_AUTO ? cfg_is_lossy(o) && o->include[0] != '\0'
                                                : o->progress != CFG_PROGRESS_OFF;
    }
    cfg_free(cfg);
    return asks;
}
