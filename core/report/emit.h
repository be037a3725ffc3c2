/* One emitter, two forms: the same calls write a text for people or JSON for programs.
 *
 * A key names a value in JSON, a label or title names it in text; where one of them is NULL the
 * value is left out of that form. Numbers carry their unit: text shows 12.3 MB, 4.56 ms, 0.78 %;
 * JSON has the raw bytes, seconds and fractions. Neither depends on the locale. JSON is valid
 * whatever the values: what is not finite becomes null, control characters are escaped, and a byte
 * that is no UTF-8 becomes "?" in both forms. Nothing is allocated. (The manner is that of
 * jemalloc's emitter.)
 */
#ifndef CORE_REPORT_EMIT_H
#define CORE_REPORT_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ss_emit_form {
    SS_EMIT_TEXT,
    SS_EMIT_JSON,
    SS_EMIT_ALL /* text with what is rarely useful */
};

/* Takes len bytes. Returns 0, or an error code after which it is not called again. */
typedef int ss_emit_write(void *ctx, const char *text, size_t len);

enum ss_emit_kind {
    SS_V_TEXT, /* string; NULL is "" in text and null in JSON */
    SS_V_LINE, /* string of which text shows the first line, tabs as spaces; JSON has all of it */
    SS_V_BOOL, /* yes or no */
    SS_V_INTEGER,  /* plain digits: a year, a rank, a version */
    SS_V_COUNT,    /* digits in groups of three: 4,194,304 */
    SS_V_BYTES,    /* whole bytes; text shows B, kB, MB, ... in powers of 1,000 */
    SS_V_MEAN,     /* double, bytes; "-" where not finite, as for all doubles */
    SS_V_SECONDS,  /* double; s, ms, us, ns */
    SS_V_SHARE,    /* double; a fraction, in per cent in text */
    SS_V_FACTOR,   /* double; three digits */
    SS_V_SENTENCE, /* several values run together in their form for people; a string in JSON */
    SS_V_COUNTS,   /* several named whole numbers; those that are 0 are left out */
    SS_V_SUMS,     /* several named doubles; those that are 0 are left out; meant for JSON */
    SS_V_ARRAYS    /* several named arrays of doubles, of six digits; in JSON alone */
};

/* A value. All pointers are borrowed until the call it is given to returns. */
struct ss_emit_value {
    enum ss_emit_kind kind;
    union {
        const char *text;
        bool flag;
        int64_t integer;
        uint64_t count;
        double number;
        struct {
            const struct ss_emit_value *parts;
            size_t n;
        } sentence;
        struct {
            const char *(*key)(int i);  /* in JSON */
            const char *(*name)(int i); /* in text */
            const uint64_t *counts;     /* SS_V_COUNTS */
            const double *sums;         /* SS_V_SUMS */
            int n;
        } list;
        struct {
            const struct ss_emit_column *columns; /* their keys */
            size_t n_columns, n;                  /* arrays, and elements of each */
            double (*at)(const void *ctx, size_t column, size_t i);
            const void *ctx; /* NULL: null */
        } arrays;
    } as;
};

static inline struct ss_emit_value ss_v_text(const char *text)
{
    return (struct ss_emit_value){SS_V_TEXT, {.text = text}};
}

static inline struct ss_emit_value ss_v_line(const char *text)
{
    return (struct ss_emit_value){SS_V_LINE, {.text = text}};
}

static inline struct ss_emit_value ss_v_bool(bool flag)
{
    return (struct ss_emit_value){SS_V_BOOL, {.flag = flag}};
}

static inline struct ss_emit_value ss_v_integer(int64_t integer)
{
    return (struct ss_emit_value){SS_V_INTEGER, {.integer = integer}};
}

static inline struct ss_emit_value ss_v_count(uint64_t count)
{
    return (struct ss_emit_value){SS_V_COUNT, {.count = count}};
}

static inline struct ss_emit_value ss_v_bytes(uint64_t bytes)
{
    return (struct ss_emit_value){SS_V_BYTES, {.count = bytes}};
}

/* kind: SS_V_MEAN, SS_V_SECONDS, SS_V_SHARE or SS_V_FACTOR. */
static inline struct ss_emit_value ss_v_number(enum ss_emit_kind kind, double number)
{
    return (struct ss_emit_value){kind, {.number = number}};
}

static inline struct ss_emit_value ss_v_sentence(const struct ss_emit_value *parts, size_t n)
{
    return (struct ss_emit_value){SS_V_SENTENCE, {.sentence = {parts, n}}};
}

/* State of one document. Its members belong to emit.c. */
struct ss_emit {
    enum ss_emit_form form;
    ss_emit_write *write;
    void *ctx;
    int status;     /* first error of write; nothing is written after it */
    int depth;      /* objects and arrays open */
    bool empty;     /* nothing yet in the innermost of them */
    bool measuring; /* count characters instead of writing them */
    size_t measured;
    size_t used;
    char buffer[1024];
};

/* A document is one JSON object between begin and end. end returns 0 or the first error of write.
 */
void ss_emit_begin(struct ss_emit *emit, enum ss_emit_form form, ss_emit_write *write, void *ctx);
int ss_emit_end(struct ss_emit *emit);

/* An object in JSON; in text a heading, or nothing where title is NULL. */
void ss_emit_object_begin(struct ss_emit *emit, const char *key, const char *title);
void ss_emit_object_end(struct ss_emit *emit);

enum { SS_EMIT_VIEWS = 4, SS_EMIT_COLUMNS = 64 };

/* Column styles. */
enum {
    SS_LEFT = 1, /* text aligned left; numbers are aligned right */
    SS_RARE = 2  /* of the texts in SS_EMIT_ALL only */
};

/* What a value is called, and what it means: a column of a table, or a member of an object. */
struct ss_emit_column {
    const char *key;   /* NULL: in text only */
    const char *title; /* NULL: in JSON only; columns all "": no heading line */
    unsigned views;    /* bit v: in the text table under titles[v] */
    unsigned style;
    const char *legend; /* one sentence, without the full stop, for all who read key or title */
};

/* The columns of a table, or the members of an object, all of them. */
struct ss_emit_group {
    const char *key;
    const char *title; /* of the legend */
    const struct ss_emit_column *columns;
    size_t n;
};

/* One value: "key": value, or a line of title and value; title "" starts at the margin. */
void ss_emit_kv(struct ss_emit *emit, const struct ss_emit_column *column,
                struct ss_emit_value value);

/* An object of JSON with all members of the group, values in their order; nothing in text. */
void ss_emit_group(struct ss_emit *emit, const struct ss_emit_group *group,
                   const struct ss_emit_value *values);

/* An array of objects in JSON, one per row with all columns. In text one or several tables, each
 * with some of the columns, as wide as their widest cell; nothing where there is no row. */
struct ss_emit_table {
    const char *key;
    const char *titles[SS_EMIT_VIEWS]; /* NULL: no such view */
    unsigned rare;                     /* bit v: view v in SS_EMIT_ALL only */
    const struct ss_emit_column *columns;
    size_t column_count; /* at most SS_EMIT_COLUMNS */

    /* Fills one value per column for row 0, 1, 2, ... in turn, from 0 again for each pass; false
     * past the last. */
    bool (*row)(void *ctx, size_t row, struct ss_emit_value *values);
};
void ss_emit_table(struct ss_emit *emit, const struct ss_emit_table *table, void *ctx);

#endif
