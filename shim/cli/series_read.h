/* Reads the series of a tensor back, and how partial calls went. */
#ifndef SHIM_CLI_SERIES_READ_H
#define SHIM_CLI_SERIES_READ_H

#include <jansson.h>

#include "core/report/stats.h"
#include "core/tensor/series.h"

/* An object of arrays of one length, 128 at most, or null, which leaves NULL; arrays that are not
 * there are NaN. What is wrong with it, or NULL and *to, to be freed. */
const char *cli_series_read(const json_t *value, struct ss_series **to);

/* An object of arrays of one length, 128 at most; arrays that are not there are 0. What is wrong
 * with it, or NULL. */
const char *cli_stretches_read(const json_t *value, struct ss_rounds_record *to);

#endif
