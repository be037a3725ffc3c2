/* Shared by the files of config/; other folders see config.h only. */
#ifndef CONFIG_PARTS_H
#define CONFIG_PARTS_H

#include "config/config.h"

#define CFG_PREFIX "SPARSESHIM_"
#define CFG_TEST   "SPARSESHIM_TEST"

enum cfg_type {
    CFG_BOOL,     /* bool */
    CFG_CHOICE,   /* enum: position of the word in the row's `allowed` text */
    CFG_TEXT,     /* const char * */
    CFG_COUNT,    /* uint64_t, 0 or more */
    CFG_SHARE,    /* struct cfg_share */
    CFG_SIZE,     /* uint64_t, 1 or more; the default's text stands for 0 */
    CFG_MERGE,    /* as CFG_SIZE, or "auto": SS_MERGE_AUTO */
    CFG_MEASURED, /* double, 0 or more; the default's text stands for -1 */
    CFG_TIMEOUT,  /* double, more than 0; the default's text stands for 0 */
};

struct cfg_option {
    const char *name; /* upper case, without the prefix */
    enum cfg_type type;
    const char *standard;
    const char *allowed;
    const char *doc;
    size_t offset; /* of the field in struct cfg_options */
    bool shared;   /* must be equal on all ranks */
    bool expert;   /* for experts; else for users */
};

enum { CFG_ROWS = 29 };
extern const struct cfg_option cfg_table[CFG_ROWS];

/* Returns the row of CONFIG. */
size_t cfg_config_row(void);

/* Words, names and numbers are ASCII whatever the program's locale says. */
char cfg_lower(char c);
bool cfg_blank(char c);
bool cfg_same(const char *a, const char *b); /* ignores case and '-' or '_' */

union cfg_value {
    bool on;
    unsigned choice;
    uint64_t whole;
    double real;
    struct cfg_share share;
};

/* Reads a text without blanks around it as the row's type. Returns false, with *value untouched, if
 * it is not allowed. A CFG_TEXT leaves *value untouched, too. Allocates nothing. */
bool cfg_parse(const struct cfg_option *option, const char *text, union cfg_value *value);

/* Writes a percentage that a CFG_SHARE admits as a share: "1%" as "0.01". */
void cfg_share_text(char *text, size_t size, const char *percentage);

enum { CFG_FILES = 4 }; /* the system's, and those that CONFIG may mean */

struct cfg {
    struct cfg_options options;
    struct cfg_forced forced;
    char *text[CFG_ROWS]; /* as shown to the user; CFG_TEXT fields point here */
    enum cfg_source source[CFG_ROWS];
    char **problem;
    bool *fatal;
    size_t n_problems;
    struct {
        char *path;
        char *found;
    } file[CFG_FILES]; /* looked at */
    size_t n_files;
    char *locked[CFG_ROWS]; /* FILE:LINE of the system's file that locks the option, or NULL */
    char *modes_from;       /* FILE:LINE of allow_modes */
    unsigned modes;         /* allowed, a bit for each; 0: all */
    bool no_modes;          /* allow_modes = none: the library is off */
    char *misread;          /* FILE[:LINE] of a policy that cannot be understood, or NULL */
    bool bad[CFG_ROWS];     /* the system's file has a value that the row does not admit */
    bool limited;           /* MODE is what allow_modes has left of it */
    bool switched_off;      /* it has left nothing: DISABLE is on */
    bool out_of_memory;
};

/* Takes over a value, or records a problem and lets the former value stand. `assignment` is what
 * the user wrote, as the message shows it: "SPARSESHIM_MODE=exakt" or "job.conf:3: mode = exakt".
 */
void cfg_set(struct cfg *cfg, size_t row, const char *text, enum cfg_source source,
             const char *assignment);

/* Returns the field of a row and its bytes, 0 for a text. */
const void *cfg_field(const struct cfg *cfg, size_t row, size_t *size);

/* Returns true if a row has its default. */
bool cfg_is_standard(const struct cfg *cfg, size_t row);

/* Sets the defaults that MODE=quant has of its own. */
void cfg_set_mode_defaults(struct cfg *cfg);
/* Records a problem for each value that needs another option. If calls would differ from what the
 * user asked for, the option gets its default. */
void cfg_check_needs(struct cfg *cfg);

/* Returns the bytes of the printable character of UTF-8 that a text begins with; 0: it is none. */
size_t cfg_printable(const char *text);

/* Records a problem in one line: bytes that are not printable become '?'. */
void cfg_say(struct cfg *cfg, bool fatal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Records that a removed option is set; `assignment` as above, `instead` from cfg_removed. */
void cfg_say_removed(struct cfg *cfg, const char *assignment, const char *instead);

/* Reads SPARSESHIM_TEST from the environment. */
void cfg_force(struct cfg *cfg);

/* Notes what became of a configuration file. */
void cfg_looked_at(struct cfg *cfg, const char *path, const char *found);

/* Returns the name of the row nearest to an unknown name, or NULL. */
const char *cfg_nearest(const char *typed);

/* Returns the name of a policy's line nearer to `typed` than *best, which is then lowered, or NULL.
 */
const char *cfg_nearest_policy(const char *typed, size_t *best);

/* Takes over a line of a policy that stands at FILE:LINE, or records a problem. */
void cfg_policy_line(struct cfg *cfg, const char *where, enum cfg_source source, const char *name,
                     const char *value);

/* Notes that the policy cannot be understood at FILE[:LINE]. Returns the end of the message, which
 * says what follows. */
const char *cfg_misread(struct cfg *cfg, const char *where);

/* Applies the policy once all values are known. A locked option needs a value of the site that can
 * be understood. A MODE that is not allowed becomes the largest allowed one below it, in the order
 * of the table; if there is none, the library is off. */
void cfg_apply_policy(struct cfg *cfg);

/* Returns FILE:LINE of the policy that decided the value of a row, or NULL. */
const char *cfg_ruled_by(const struct cfg *cfg, size_t row);

void cfg_policy_free(struct cfg *cfg);

/* Reads one configuration file. A missing file is a problem unless `may_be_missing`. Returns true
 * if there is a file, readable or not. */
bool cfg_read_file(struct cfg *cfg, const char *path, enum cfg_source source, bool may_be_missing);

/* Writes the absolute path of a directory, given its path relative to the directory of a file:
 * "../etc" and "/opt/lib/a.so" give "/opt/etc". Returns false if it does not fit. */
bool cfg_path(char *path, size_t size, const char *file, const char *way);

/* Acts like cfg_load with this SYSCONFDIR (NULL: not known) and this folder of the profiles of a
 * build directory (NULL: none). */
struct cfg *cfg_load_from(const char *sysconfdir, const char *built);

#endif
