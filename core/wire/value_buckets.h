/* Where the buckets of coded values begin (core/wire/values.h), without what is in them. */
#ifndef CORE_WIRE_VALUE_BUCKETS_H
#define CORE_WIRE_VALUE_BUCKETS_H

#include "core/base/types.h"

enum ss_bucket_form { SS_BUCKET_AS_IT_IS, SS_BUCKET_CODED, SS_BUCKET_ZEROS, SS_BUCKET_FORMS };

/* Bytes before the first bucket. */
enum { SS_VALUES_HEAD = 8 };

/* Bits of a code. */
unsigned ss_values_width(enum ss_values values);

/* Bytes of a bucket of n values, at most len; 0 where it is malformed, whatever its codes are. */
size_t ss_bucket_bytes(enum ss_type type, enum ss_values values, const uint8_t *from, size_t len,
                       size_t n);

/* As ss_values_decode, but that the codes are not looked at and nothing is decoded. places: NULL,
 * or gets the bytes before each bucket of ss_values_bucket values. */
size_t ss_values_look(enum ss_type type, enum ss_values values, const void *from, size_t len,
                      uint32_t *places, size_t count);
uint32_t ss_values_bucket(const void *from); /* of what ss_values_look knows */

#endif
