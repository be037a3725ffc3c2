/* Seconds of a call by phase. */
#ifndef CORE_BASE_TIMES_H
#define CORE_BASE_TIMES_H

/* The fields, in seconds; exchange excludes merge and coding. */
struct ss_times {
    double scan;
    double vote; /* includes calibration */
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
