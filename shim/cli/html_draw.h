/* Pieces of a page of HTML, to standard output: text, values, and pictures in SVG. Nothing is
 * loaded from anywhere, and no script runs. */
#ifndef SHIM_CLI_HTML_DRAW_H
#define SHIM_CLI_HTML_DRAW_H

#include "core/report/emit.h"
#include "core/tensor/series.h"

/* Text from anywhere: as text, and within double quotes. */
void html_text(const char *text);

/* A value in its form for people; nothing longer than 4,095 bytes. */
void html_value(struct ss_emit_value value);

/* JSON within a script element: a ss_emit_write. */
int html_json(void *ctx, const char *text, size_t len);

/* A bar of several parts one after the other; parts that are not finite or not above 0 are left
 * out. */
enum { HTML_PARTS = 6, HTML_LABEL = 96 };
struct html_bar {
    char label[HTML_LABEL];
    double part[HTML_PARTS];
    int key[HTML_PARTS]; /* which of the key below it is */
    size_t parts;
};
struct html_key {
    const char *name[HTML_PARTS];
    int colour[HTML_PARTS]; /* of the page, 0 to 5 */
    size_t n;
};
void html_bars(const char *title, const struct html_bar *bars, size_t n, enum ss_emit_kind kind,
               const struct html_key *key);

/* Lines over the calls of a tensor, from 0 up. `of` picks a member of a point for each. */
struct html_line {
    const char *name;
    int colour;
    double (*of)(const struct ss_series_point *point);
};
void html_lines(const char *title, const struct ss_series *series, const struct html_line *lines,
                size_t n, enum ss_emit_kind kind);

#endif
