/* What the time of a call went to. */
#ifndef CORE_BASE_TIMES_H
#define CORE_BASE_TIMES_H

/* Seconds by phase of a call. merge: reduction of received entries; coding: encoding and decoding;
 * exchange: the recipe less merge and coding. */
struct ss_times {
    double scan;
    double vote; /* calibration included */
    double exchange;
    double merge;
    double coding;
    double native; /* the MPI library's collective */
};

static inline void ss_times_add(struct ss_times *sum, const struct ss_times *t)
{
    sum->scan += t->scan;
    sum->vote += t->vote;
    sum->exchange += t->exchange;
    sum->merge += t->merge;
    sum->coding += t->coding;
    sum->native += t->native;
}

#endif
