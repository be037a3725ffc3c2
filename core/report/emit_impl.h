/* What the emitter is made of: emit_values.c writes values, emit.c what holds them. */
#ifndef CORE_REPORT_EMIT_IMPL_H
#define CORE_REPORT_EMIT_IMPL_H

#include "core/report/emit.h"

void ss_emit_flush(struct ss_emit *e);
void ss_emit_byte(struct ss_emit *e, char byte);
void ss_emit_put(struct ss_emit *e, const char *text); /* of our own: plain ASCII */
void ss_emit_spaces(struct ss_emit *e, size_t n);

/* A value, for people and in JSON. */
void ss_emit_human(struct ss_emit *e, const struct ss_emit_value *v);
void ss_emit_raw(struct ss_emit *e, const struct ss_emit_value *v);

#endif
