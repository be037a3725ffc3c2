/* The options. An option exists in config/table.c and nowhere else: environment, configuration
 * files, `sparseshim info`, the manual and every error text come from its row. config depends on
 * libc, and on core/base/choices.h for the choices that core shares. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/choices.h"

/* Values of enumerated options that concern the shim alone; the words a user types stand in the
 * table. */
enum cfg_mode { CFG_MODE_OBSERVE, CFG_MODE_LEARN, CFG_MODE_EXACT, CFG_MODE_TOPK, CFG_MODE_QUANT };

/* DENSITY: a share of all elements, or, with bucket > 0, the k largest of each `bucket` elements.
 */
struct cfg_share {
    double density;
    uint64_t k, bucket;
};
enum cfg_progress {
    CFG_PROGRESS_AUTO,
    CFG_PROGRESS_WATCHDOG,
    CFG_PROGRESS_THREAD,
    CFG_PROGRESS_OFF
};
enum cfg_device { CFG_DEVICE_AUTO, CFG_DEVICE_CPU, CFG_DEVICE_CUDA };
enum cfg_debug { CFG_DEBUG_NONE, CFG_DEBUG_WARN, CFG_DEBUG_INFO, CFG_DEBUG_TRACE };
enum cfg_report { CFG_REPORT_OFF, CFG_REPORT_RANK0, CFG_REPORT_ALL };

/* No option: `sparseshim run` puts the number of its process here, if the user wants a report. */
#define CFG_RUN_PROCESS "SPARSESHIM_RUN_PROCESS"

/* The values of all options, a field for each row of the table. Texts belong to struct cfg. */
struct cfg_options {
    bool disable;
    const char *config; /* file, or @profile; "" = none */
    enum cfg_mode mode;
    uint64_t min_count; /* elements */
    struct cfg_share density;
    const char *include;   /* REGISTER: rules, "" = none: nothing is lossy */
    const char *exclude;   /* rules */
    uint64_t warmup_steps; /* calls of a tensor */
    unsigned value_type;   /* an enum ss_values, or one of SS_QSGD_LIST */
    enum ss_guard guard;
    enum ss_quorum quorum;
    enum ss_algorithm algorithm;
    enum ss_aggregation node_aggregation;
    double alpha;        /* seconds; < 0: measured */
    double beta;         /* seconds per byte; < 0: measured */
    uint64_t max_memory; /* bytes; 0: a quarter of the host's RAM over the ranks on it */
    double timeout;      /* seconds; 0: off */
    enum cfg_progress progress;
    uint64_t merge; /* bytes, or SS_MERGE_AUTO; 0: off */
    enum cfg_device device;
    enum cfg_debug debug;
    const char *debug_file; /* "stderr" or a path with %h %p %r %j %u */
    enum cfg_report report;
    const char *report_dir; /* "" = stderr only */
    const char *trace;      /* a directory, "" = none */
    bool strict;
    const char *programs; /* patterns, "" = all */
    bool reproducible;
    bool torch; /* of `sparseshim run` alone */
};

/* Returns true if the gradients that REGISTER names are lossy. */
static inline bool cfg_is_lossy(const struct cfg_options *o)
{
    return o->mode == CFG_MODE_TOPK || o->mode == CFG_MODE_QUANT;
}

/* Values that no option sets: constants, unless a test forces them by
 * SPARSESHIM_TEST=name=value,... with a value of 1 or more. */
struct cfg_forced {
    uint64_t in_flight;        /* SS_IN_FLIGHT */
    uint64_t quorum_period;    /* SS_QUORUM_PERIOD */
    uint64_t quorum_staleness; /* SS_QUORUM_STALENESS */
    uint64_t threshold_period; /* SS_THRESHOLD_PERIOD */
    uint64_t identity_steps;   /* SS_IDENTITY_STEPS */
    uint64_t slice;            /* SS_SLICE_LEAST */
    uint64_t layout; /* decimal digits: the hosts of ranks 0, 1, ..., again from the first digit
                        behind the last; 0: the hosts are found out */
};

enum cfg_source {
    CFG_FROM_DEFAULT,
    CFG_FROM_SYSTEM_FILE,
    CFG_FROM_USER_FILE,
    CFG_FROM_ENVIRONMENT
};

struct cfg; /* opaque: options, where each came from, storage of texts, the problems met */

/* Reads defaults, then SYSCONFDIR/sparseshim.conf, then CONFIG's file or profile, then SPARSESHIM_*
 * of the environment (secure_getenv). Bad input is recorded as a problem, and the former value
 * stands. Returns NULL only if memory is short. Free the result with cfg_free. */
struct cfg *cfg_load(void);
void cfg_free(struct cfg *cfg);

const struct cfg_options *cfg_options(const struct cfg *cfg);

const struct cfg_forced *cfg_forced(const struct cfg *cfg);

/* Returns DISABLE alone, read from the environment without allocating: a preloaded process calls
 * this first. No function of config prints, exits, changes errno, or depends on the program's
 * locale. */
bool cfg_disabled(void);

/* Write the absolute paths of SYSCONFDIR, LIBDIR and the directory of the programs of verbs. In an
 * installed tree they follow from the place of this library or command; otherwise make has set
 * them. Return false if a path is not known, or does not fit. */
bool cfg_sysconfdir(char *path, size_t size);
bool cfg_libdir(char *path, size_t size);
bool cfg_libexecdir(char *path, size_t size);

/* Writes the user's folder of profiles by the XDG base directory specification. Writes "" if the
 * user has no home, the path is relative, or the program has another user's rights. */
void cfg_user_folder(char path[PATH_MAX]);

/* Writes the folder of profiles of a build directory; returns false in an installed tree. */
bool cfg_profiles(char *path, size_t size);

/* Returns the i-th file that was looked for, in the order of rising precedence; NULL past the last.
 * *found (may be NULL) is "read", "not there", or the reason why it could not be read. Owned by
 * cfg.
 */
const char *cfg_file(const struct cfg *cfg, size_t i, const char **found);

/* Returns the i-th problem met while loading, NULL past the last. Bad values and unreadable files
 * come first, then unknown variables, each with the nearest name. A problem is one sentence that
 * names the variable, or file and line, the value and the allowed values. *fatal (may be NULL) is
 * true if STRICT=on turns it into an error: all but unknown names. Owned by cfg. */
const char *cfg_problem(const struct cfg *cfg, size_t i, bool *fatal);

/* Returns the problem of the file or profile that CONFIG names in the environment and that cannot
 * be read, NULL if there is none. The job would run with other options than meant. */
const char *cfg_config_problem(const struct cfg *cfg);

/* Returns a hash of all options that must be equal on all ranks (`shared` in the table). Values are
 * hashed after parsing, so that "1e3" and "1000" agree. */
uint64_t cfg_hash_shared(const struct cfg *cfg);

/* Writes a hash of 63 bits and the table row (for cfg_row) of up to `most` shared options, and
 * returns their number. The ranks find by them which option differs. The last two hashes are the
 * policy's, whose row is the one past the table, and that of the values of SPARSESHIM_TEST. */
#define CFG_SHARED_TEST SIZE_MAX
size_t cfg_hash_each_shared(const struct cfg *cfg, uint64_t *hashes, size_t *rows, size_t most);

/* Writes the site's policy, such as "lock = MODE, allow_modes = observe exact" or "none". */
void cfg_policy(const struct cfg *cfg, char *text, size_t size);

/* Returns FILE:LINE of the policy that allows no mode for this job, and so has set `disable`; or
 * NULL. *for_all: it allows no mode to any job. */
const char *cfg_turned_off(const struct cfg *cfg, bool *for_all);

/* Returns FILE[:LINE] of a policy that cannot be read or understood, so that every call passes
 * through; or NULL. */
const char *cfg_misread_policy(const struct cfg *cfg);

/* Returns true if PROGRAMS has a program of this file name served. patterns: names with * and ? as
 * in fnmatch, separated by blanks, with ! before those that are excluded; "": all. */
bool cfg_serves(const char *patterns, const char *name);

/* Returns true for the name of a policy's line, `lock` or `allow_modes`, in letters of either
 * case. */
bool cfg_is_policy(const char *name);

/* A row of the table for printing; cfg_row returns false past the last. All pointers are valid as
 * long as cfg is. */
struct cfg_row {
    const char *name;     /* without the prefix, upper case */
    const char *value;    /* current value as text */
    const char *standard; /* default as text, as README shows it */
    const char *allowed;  /* "observe, exact" or "elements, from 0" */
    const char *doc;      /* one or more sentences */
    enum cfg_source source;
    const char *locked; /* FILE:LINE of the policy that decided it, or NULL */
    bool shared;        /* must be equal on all ranks */
    bool expert;        /* for experts; else for users */
};
bool cfg_row(const struct cfg *cfg, size_t i, struct cfg_row *row);
const char *cfg_source_name(enum cfg_source source);

/* Read numbers as the options take them: "4Mi" elements, "2 GiB" bytes, "2us" seconds (0 or more),
 * "0.01" or "1%". Return false, with *out untouched, if the text is no such number. */
bool cfg_number_count(const char *text, uint64_t *out);
bool cfg_number_bytes(const char *text, uint64_t *out);
bool cfg_number_seconds(const char *text, double *out);
bool cfg_number_share(const char *text, double *out);

/* Returns the row of a name without the prefix, in letters of either case and with '-' or '_';
 * SIZE_MAX if there is none. */
size_t cfg_find(const char *name);

/* Returns what replaced a removed option, by its name without the prefix, in letters of either case
 * and with '-' or '_'; NULL if there was no such option. */
const char *cfg_removed(const char *name);

/* Writes a value as messages show it: at most 60 characters, then "..."; bytes that are no
 * printable character of UTF-8 as \xNN. Returns the text. */
enum { CFG_QUOTED = 4 * 60 + sizeof "..." };
const char *cfg_quote(char text[CFG_QUOTED], const char *value);
#define CFG_SHOWN(value) cfg_quote((char[CFG_QUOTED]){0}, value)

/* Writes what is said of a name that nothing has: "PREFIXNAME is not known", and " (did you mean
 * PREFIXNEAR?)" unless `near` is NULL or empty. Returns the text. */
enum { CFG_UNKNOWN = CFG_QUOTED + 160 };
const char *cfg_not_known(char text[CFG_UNKNOWN], const char *prefix, const char *name,
                          const char *near);
#define CFG_NOT_KNOWN(prefix, name, near) cfg_not_known((char[CFG_UNKNOWN]){0}, prefix, name, near)

/* Returns NULL if the row admits the value, else a sentence, to be freed, with the allowed values.
 */
char *cfg_objection(size_t row, const char *value);

/* Returns true if `name` is close to `typed` and closer than *best, which is then lowered. Start a
 * search for a mistyped word with *best = SIZE_MAX. Case and '-' or '_' make no difference. */
bool cfg_nearer(const char *typed, const char *name, size_t *best);

/* Writes "name = value" in the syntax of configuration files, with quotes if needed. Returns the
 * length, as snprintf does. */
int cfg_file_line(char *line, size_t size, const struct cfg_row *row);

#endif
