/* A reader of JSON (RFC 8259) that goes forward only: the caller asks for what it expects next. It
 * never reads past the end, builds no tree and does not depend on the locale.
 *
 * Every function returns false after a failure, which is described once, with line and column; the
 * caller only passes false on.
 */
#ifndef SHIM_CLI_JSON_READ_H
#define SHIM_CLI_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members belong to json_read.c. */
struct cli_json {
    const char *start, *at, *end;
    char *texts; /* where the next text is stored */
    int depth;
    bool failed;
    char *error;
    size_t error_size;
};

/* text: len bytes, borrowed while reading. texts: room of the caller for len + 1 bytes, where all
 * strings are stored. error: where the first failure is described. */
void cli_json_begin(struct cli_json *json, const char *text, size_t len, char *texts, char *error,
                    size_t error_size);

/* Only white space may follow. */
bool cli_json_end(struct cli_json *json);

/* Says what is wrong here, unless something was wrong before. Returns false. */
bool cli_json_fail(struct cli_json *json, const char *what);

/* The callback must take the member's or element's value by one of these functions. At most 64
 * values nest. */
bool cli_json_object(struct cli_json *json,
                     bool (*member)(struct cli_json *json, const char *key, void *ctx), void *ctx);
bool cli_json_array(struct cli_json *json, bool (*element)(struct cli_json *json, void *ctx),
                    void *ctx);

/* Values. null is NULL as a text and NaN as a double, and nowhere else allowed. Whole numbers that
 * do not fit are a failure; so is a null character in a text. */
bool cli_json_text(struct cli_json *json, const char **text);
bool cli_json_bool(struct cli_json *json, bool *value);
bool cli_json_u64(struct cli_json *json, uint64_t *value);
bool cli_json_i64(struct cli_json *json, int64_t *value);
bool cli_json_int(struct cli_json *json, int *value);
bool cli_json_f64(struct cli_json *json, double *value);
bool cli_json_skip(struct cli_json *json);

#endif
