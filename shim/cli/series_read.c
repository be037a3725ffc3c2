#include "shim/cli/series_read.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key;
    size_t offset;
} members[] = {
    {"call", offsetof(struct ss_series_point, call)},
    {"density", offsetof(struct ss_series_point, density)},
    {"threshold", offsetof(struct ss_series_point, threshold)},
    {"residual_norm", offsetof(struct ss_series_point, residual)},
    {"input_norm", offsetof(struct ss_series_point, input)},
};

static const char *read_member(const json_t *array, size_t n, size_t offset,
                               struct ss_series_point *point)
{
    if (array != NULL && (!json_is_array(array) || json_array_size(array) != n))
        return "arrays of one length expected";
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(array, i);
        double value = json_is_number(number) ? json_number_value(number) : (double)NAN;

        if (number != NULL && !json_is_number(number) && !json_is_null(number))
            return "numbers expected";
        memcpy((char *)&point[i] + offset, &value, sizeof value);
    }
    return NULL;
}

static bool ascend(const struct ss_series *series)
{
    double last = 0;

    for (size_t i = 0; i < series->n; i++) {
        double call = series->point[i].call;

        if (!(call > last && call <= 1e15))
            return false;
        last = call;
    }
    return true;
}

const char *cli_series_read(const json_t *value, struct ss_series **to)
{
    size_t n = json_array_size(json_object_get(value, members[0].key));
    const char *wrong = NULL;

    if (json_is_null(value))
        return NULL;
    if (!json_is_object(value) || n == 0)
        return "object of arrays expected";
    if (n > SS_SERIES_POINTS)
        return "too many points";
    struct ss_series *series = calloc(1, sizeof *series);
    if (series == NULL)
        return "out of memory";
    series->n = n;
    for (size_t m = 0; m < sizeof members / sizeof *members && wrong == NULL; m++)
        wrong = read_member(json_object_get(value, members[m].key), n, members[m].offset,
                            series->point);
    if (wrong == NULL && !ascend(series))
        wrong = "calls in their order expected";
    if (wrong == NULL)
        *to = series;
    else
        free(series);
    return wrong;
}

static const struct {
    const char *key;
    size_t offset;
    bool whole;
} sums[] = {
    {"rounds", offsetof(struct ss_rounds_sums, rounds), true},
    {"in", offsetof(struct ss_rounds_sums, in), true},
    {"left", offsetof(struct ss_rounds_sums, left), true},
    {"late", offsetof(struct ss_rounds_sums, late), true},
    {"seconds_waited", offsetof(struct ss_rounds_sums, waited), false},
    {"seconds_behind", offsetof(struct ss_rounds_sums, behind), false},
};

static const char *read_sum(const json_t *array, size_t n, size_t m, struct ss_rounds_sums *to)
{
    if (array != NULL && (!json_is_array(array) || json_array_size(array) != n))
        return "arrays of one length expected";
    for (size_t i = 0; i < n && array != NULL; i++) {
        const json_t *number = json_array_get(array, i);
        double value = json_number_value(number);
        char *at = (char *)&to[i] + sums[m].offset;

        if (!json_is_number(number) || !(value >= 0 && value < 1e18))
            return "numbers expected, none below 0";
        if (sums[m].whole)
            memcpy(at, &(uint64_t){(uint64_t)value}, sizeof(uint64_t));
        else
            memcpy(at, &value, sizeof value);
    }
    return NULL;
}

const char *cli_stretches_read(const json_t *value, struct ss_rounds_record *to)
{
    size_t n = json_array_size(json_object_get(value, sums[0].key));
    const char *wrong = json_is_object(value) ? NULL : "object of arrays expected";

    if (n > SS_STRETCHES)
        return "too many stretches";
    for (size_t m = 0; m < sizeof sums / sizeof *sums && wrong == NULL; m++)
        wrong = read_sum(json_object_get(value, sums[m].key), n, m, to->stretch);
    to->stretches = n;
    return wrong;
}
