/* Writes one JSON document through a small buffer. Allocates nothing and does not depend on the
 * locale of the program. The document is valid whatever the values: a number that is not finite
 * becomes null, control characters are escaped, a byte that is no UTF-8 becomes "?". */
#ifndef CORE_REPORT_JSON_H
#define CORE_REPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes len bytes. Returns 0, or an error code after which it is not called again. */
typedef int ss_json_write(void *ctx, const char *text, size_t len);

enum { SS_JSON_DEPTH = 8 };

/* Its members belong to json.c. */
struct ss_json {
    ss_json_write *write;
    void *ctx;
    int status; /* first error of write */
    int depth;  /* objects and arrays that are open */
    bool empty; /* the innermost of them has no member yet */
    char close[SS_JSON_DEPTH];
    bool flat[SS_JSON_DEPTH]; /* its members stand on one line */
    size_t used;
    char buffer[1024];
};

/* Opens the document, an object; end closes it and returns 0 or the first error of write. */
void ss_json_begin(struct ss_json *json, ss_json_write *write, void *ctx);
int ss_json_end(struct ss_json *json);

/* Opens an object or an array as a member. The key is NULL for an element of an array. An object
 * that is an element, and all in it, stands on one line. */
void ss_json_object(struct ss_json *json, const char *key);
void ss_json_array(struct ss_json *json, const char *key);
void ss_json_close(struct ss_json *json);

void ss_json_text(struct ss_json *json, const char *key, const char *text); /* NULL: null */
void ss_json_flag(struct ss_json *json, const char *key, bool flag);
void ss_json_count(struct ss_json *json, const char *key, uint64_t count);
void ss_json_integer(struct ss_json *json, const char *key, int64_t integer);
void ss_json_real(struct ss_json *json, const char *key, double real);
/* With six digits, or all of a whole number. */
void ss_json_short(struct ss_json *json, const char *key, double real);
void ss_json_null(struct ss_json *json, const char *key);

/* Writes a line for a terminal that may hold text of others: as ss_json_text does, without quotes.
 * Returns 0 or the error of write. */
int ss_json_line(ss_json_write *write, void *ctx, const char *text);

#endif
