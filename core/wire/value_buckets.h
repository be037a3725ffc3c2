/* Layout of coded values (core/wire/values.h): the borders of buckets, without their contents. */
#ifndef CORE_WIRE_VALUE_BUCKETS_H
#define CORE_WIRE_VALUE_BUCKETS_H

#include "core/base/types.h"

enum ss_bucket_form { SS_BUCKET_AS_IT_IS, SS_BUCKET_CODED, SS_BUCKET_ZEROS, SS_BUCKET_FORMS };

/* Bytes before the first bucket. */
enum { SS_VALUES_HEAD = 8 };

/* Returns the bits of one code. */
unsigned ss_values_width(enum ss_values values);

/* Returns the bytes of the bucket of n values at `from`; 0 if its form or its scale is malformed or
 * it is longer than len. Does not check the codes. */
size_t ss_bucket_bytes(enum ss_type type, enum ss_values values, const uint8_t *from, size_t len,
                       size_t n);

/* Checks like ss_values_decode, but neither checks codes nor decodes. If `offsets` is not NULL, it
 * gets the bytes before each bucket. Returns the bytes of the values, or 0 if they are
 * malformed. */
size_t ss_values_look(enum ss_type type, enum ss_values values, const void *from, size_t len,
                      uint32_t *offsets, size_t count);
/* Returns the number of values in a bucket; only for values that ss_values_look has accepted. */
uint32_t ss_values_bucket(const void *from);

#endif
