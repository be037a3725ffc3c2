#include "shim/cli/html_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER = 4096 };

void html_text(const char *text)
{
    static const char special[] = "&<>\"'";
    static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

    for (; *text != '\0'; text++) {
        const char *found = strchr(special, *text);

        if (found != NULL)
            fputs(entity[found - special], stdout);
        else
            putchar(*text);
    }
}

struct room {
    char text[BUFFER];
    size_t len;
};

static int keep(void *ctx, const char *text, size_t len)
{
    struct room *room = ctx;
    size_t left = sizeof room->text - 1 - room->len;

    len = len < left ? len : left;
    memcpy(room->text + room->len, text, len);
    room->len += len;
    return 0;
}

void html_value(struct ss_emit_value value)
{
    static const struct ss_emit_column line = {NULL, "", 0, 0, "a value by itself"};
    struct room room = {.len = 0};
    struct ss_emit emit;

    ss_emit_begin(&emit, SS_EMIT_TEXT, keep, &room);
    ss_emit_kv(&emit, &line, value);
    ss_emit_end(&emit);
    room.text[room.len > 0 ? room.len - 1 : 0] = '\0'; /* without the end of the line */
    html_text(room.text);
}

int html_json(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    for (size_t i = 0; i < len; i++) /* these are in strings only */
        if (text[i] == '<' || text[i] == '>' || text[i] == '&')
            printf("\\u%04x", (unsigned)text[i]);
        else
            putchar(text[i]);
    return ferror(stdout) ? -1 : 0;
}

/* ---- bars ---- */

enum { WIDTH = 760, LABELS = 290, VALUES = 90, ROW = 22, BAR = 14 };

static bool drawn(double v)
{
    return isfinite(v) && v > 0;
}

static double length_of(const struct html_bar *bar)
{
    double sum = 0;

    for (size_t i = 0; i < bar->parts; i++)
        sum += drawn(bar->part[i]) ? bar->part[i] : 0;
    return sum;
}

static void draw_key(const struct html_key *key)
{
    fputs("<p class=\"key\">", stdout);
    for (size_t i = 0; i < key->n; i++) {
        printf("<span><i class=\"c%d\"></i>", key->colour[i]);
        html_text(key->name[i]);
        fputs("</span> ", stdout);
    }
    fputs("</p>\n", stdout);
}

static void draw_bar(const struct html_bar *bar, double top, double scale, enum ss_emit_kind kind,
                     const struct html_key *key)
{
    double x = LABELS;

    printf("<text class=\"label\" x=\"%d\" y=\"%.0f\">", LABELS - 8, top + BAR - 3);
    html_text(bar->label);
    fputs("</text>\n", stdout);
    for (size_t i = 0; i < bar->parts; i++) {
        if (!drawn(bar->part[i]))
            continue;
        double width = bar->part[i] * scale;
        printf("<rect class=\"c%d\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\"><title>",
               key->colour[bar->key[i]], x, top, width < 0.5 ? 0.5 : width, BAR);
        html_text(key->name[bar->key[i]]);
        fputs(": ", stdout);
        html_value(ss_v_number(kind, bar->part[i]));
        fputs("</title></rect>\n", stdout);
        x += width;
    }
    printf("<text x=\"%.1f\" y=\"%.0f\">", x + 6, top + BAR - 3);
    html_value(ss_v_number(kind, length_of(bar)));
    fputs("</text>\n", stdout);
}

void html_bars(const char *title, const struct html_bar *bars, size_t n, enum ss_emit_kind kind,
               const struct html_key *key)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = length_of(&bars[i]) > most ? length_of(&bars[i]) : most;
    fputs("<figure><figcaption>", stdout);
    html_text(title);
    fputs("</figcaption>\n", stdout);
    if (key->n > 1)
        draw_key(key);
    printf("<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"", WIDTH, n * ROW + 4);
    html_text(title);
    fputs("\">\n", stdout);
    for (size_t i = 0; i < n; i++)
        draw_bar(&bars[i], (double)(i * ROW) + 4, most > 0 ? (WIDTH - LABELS - VALUES) / most : 0,
                 kind, key);
    fputs("</svg></figure>\n", stdout);
}

/* ---- lines ---- */

enum { CHART = 380, HEIGHT = 200, LEFT = 68, RIGHT = 14, TOP = 10, BOTTOM = 26, TICKS = 5 };

/* What is above it, or not a number, is left out. */
#define LARGEST 1e300

/* What a chart shows, and where. */
struct frame {
    double first, last, most; /* calls, and the largest value */
    enum ss_emit_kind kind;
};

/* 1, 2 or 5 times a power of ten: steps of about a fifth. */
static double step_of(double span)
{
    double raw = span / TICKS, power = 1;

    while (power > raw)
        power /= 10;
    while (power * 10 <= raw)
        power *= 10;
    double times = raw / power;

    return power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
}

static double x_of(const struct frame *f, double call)
{
    double span = f->last > f->first ? f->last - f->first : 1;

    return LEFT + (call - f->first) / span * (CHART - LEFT - RIGHT);
}

static double y_of(const struct frame *f, double value)
{
    return HEIGHT - BOTTOM - value / f->most * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(const struct frame *f)
{
    double step = step_of(f->most), calls = f->last > f->first ? step_of(f->last - f->first) : 1;
    uint64_t lines = (uint64_t)(f->most * 1.0001 / step), first, last;

    for (uint64_t i = 0; i <= lines; i++) {
        double y = y_of(f, (double)i * step);

        printf("<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"label\" x=\"%d\" "
               "y=\"%.1f\">",
               LEFT, y, CHART - RIGHT, LEFT - 6, y + 4);
        html_value(ss_v_number(f->kind, (double)i * step));
        fputs("</text>\n", stdout);
    }
    calls = calls < 1 ? 1 : calls;
    first = (uint64_t)(f->first / calls);
    last = (uint64_t)(f->last / calls);
    for (uint64_t i = first; i <= last; i++)
        if ((double)i * calls >= f->first)
            printf("<text class=\"middle\" x=\"%.1f\" y=\"%d\">%.0f</text>\n",
                   x_of(f, (double)i * calls), HEIGHT - 8, (double)i * calls);
}

static void draw_line(const struct frame *f, const struct ss_series *series,
                      const struct html_line *line)
{
    bool on = false;

    printf("<path class=\"line c%d\" d=\"", line->colour);
    for (size_t i = 0; i < series->n; i++) {
        double v = line->of(&series->point[i]), call = series->point[i].call;

        if (v < LARGEST)
            printf("%s%.1f %.1f", on ? "L" : "M", x_of(f, call), y_of(f, v));
        on = v < LARGEST;
    }
    fputs("\"><title>", stdout);
    html_text(line->name);
    fputs(", at last ", stdout);
    html_value(ss_v_number(f->kind, line->of(&series->point[series->n - 1])));
    fputs("</title></path>\n", stdout);
}

static struct frame frame_of(const struct ss_series *series, const struct html_line *lines,
                             size_t n, enum ss_emit_kind kind)
{
    struct frame f = {series->point[0].call, series->point[series->n - 1].call, 0, kind};

    for (size_t l = 0; l < n; l++)
        for (size_t i = 0; i < series->n; i++) {
            double v = lines[l].of(&series->point[i]);

            if (v < LARGEST && v > f.most)
                f.most = v;
        }
    f.most = f.most > 1 / LARGEST ? f.most : 1;
    double step = step_of(f.most);
    f.most = step * (double)(uint64_t)(f.most / step + 0.9999); /* to the next line */
    return f;
}

void html_lines(const char *title, const struct ss_series *series, const struct html_line *lines,
                size_t n, enum ss_emit_kind kind)
{
    struct frame f = frame_of(series, lines, n, kind);
    struct html_key key = {.n = n};

    for (size_t i = 0; i < n; i++)
        key.name[i] = lines[i].name, key.colour[i] = lines[i].colour;
    fputs("<figure class=\"small\"><figcaption>", stdout);
    html_text(title);
    fputs("</figcaption>\n", stdout);
    if (n > 1)
        draw_key(&key);
    printf("<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", CHART, HEIGHT);
    html_text(title);
    fputs("\">\n", stdout);
    draw_axes(&f);
    for (size_t i = 0; i < n; i++)
        draw_line(&f, series, &lines[i]);
    fputs("</svg></figure>\n", stdout);
}
