/* Evidence: what tells a gradient from the other sums that programs form. Each rank looks at a
 * sample of its input, the vote adds up what all saw, and every rank draws the same conclusions
 * from the same integers, before the collective runs: so that a call can be made exact on all
 * ranks.
 *
 * The sample of n elements is SS_RUN consecutive ones at a random place in each of as many equal
 * parts, at most SS_SAMPLE in all, at least SS_SAMPLE_LEAST, else a 32nd of n. A rank brings its
 * sample's direction as a count sketch (Charikar, Chen, Farach-Colton 2002: each element with a
 * random sign into one of SS_SKETCH buckets), made a unit vector, in fixed point; their sum over
 * the ranks is the sketch of the sum of directions, whose length says how much the ranks' inputs
 * are alike and whose angle to those of calls before says whether the same comes again. Cosines of
 * sketches have a standard error of (1 - cos^2) / 11.3.
 *
 * What is asked, and why a gradient of a training by batches passes where others do not:
 *  - alike, overlap, parts: every rank has looked at data of its own for one and the same model, so
 *    their inputs have something in common, and elements that only one of them fills are few; a
 *    call in which one rank alone brings something shows neither;
 *  - stay: the next batch is as new to a rank as another rank's, so a rank's inputs of two calls
 *    are not more alike than those of two ranks, as they are where each keeps its data;
 *  - along, again, same, first, third: the direction changes, but not so that a sum resembles the
 *    last one and none before (three-term recurrences);
 *  - balance: both signs; drift, moved: the norm does not run away, neither from call to call nor,
 *    where a sum that was refused is looked at again, over the calls of that look.
 */
#ifndef CORE_TENSOR_EVIDENCE_H
#define CORE_TENSOR_EVIDENCE_H

#include "core/base/types.h"
#include "core/compute/vector.h"

enum {
    SS_RUN = 16,
    SS_SAMPLE = 65536,
    SS_SAMPLE_LEAST = 4096,
    SS_SKETCH = 128, /* 8 groups of SS_RUN buckets */
    SS_BLOCKS = 64,  /* equal parts of the buffer */
    SS_MARKS = 1024, /* elements of the sample of which is told whether they are zero */
    SS_PAST = 4      /* sums remembered */
};

/* In a ballot. Combined by sum, min and max. */
struct ss_evidence {
    uint32_t shown;       /* ranks that have shown a sample; sum */
    uint32_t nonzero;     /* of them, those whose sample is not zero; sum */
    uint64_t energy_min;  /* mean square of a sample that is not zero, double bits; min */
    uint64_t energy_max;  /* max, 0 = all are zero */
    uint32_t balance_min; /* the smaller of the shares of energy in elements above and below
                             zero, of 2^20; min */
    uint32_t balance_max; /* max */
    uint32_t marked;      /* of the marks, those a rank has; sum */
    uint32_t with_past;   /* ranks that had an input before; sum */
    int64_t stay;         /* its cosine with theirs now, of 2^20; sum */
    uint64_t marks[SS_MARKS / 64]; /* elements that are not zero; or */
    int32_t sketch[SS_SKETCH];     /* of unit vectors times 2^18; sum */
    uint16_t blocks[SS_BLOCKS];    /* share of a rank's energy so far, of 2^16 - 1; max */
};

void ss_evidence_init(struct ss_evidence *e);
void ss_evidence_merge(struct ss_evidence *into, const struct ss_evidence *other);

/* What calls look like. */
enum ss_likeness {
    SS_LIKE_GRADIENT,
    SS_LIKE_WEIGHTS, /* inputs are alike on all ranks */
    SS_LIKE_PARTS,   /* ranks hold different parts */
    SS_LIKE_COUNTS,  /* one sign, or nearly */
    SS_LIKE_BEFORE,  /* the sums are parallel to ones before */
    SS_LIKE_SOLVER,  /* the norm falls or grows steadily, or the ranks' inputs cancel */
    SS_LIKE_DATA,    /* a rank's inputs resemble each other more than the ranks' do */
    SS_LIKE_SHORT,   /* the sums are like the last one, and not like any before */
    SS_LIKE_LAYERS,  /* the ranks' inputs have nothing in common */
    SS_LIKE_MEAN     /* the sums keep one direction, however noisy */
};

/* What is remembered of a tensor's calls. All but `own` is made of voted numbers only and hence the
 * same on all ranks whose `hash` is. */
struct ss_watch {
    uint64_t hash;
    unsigned calls;  /* judged in this window, those of zero input not counted */
    unsigned paired; /* of them, and of those that did not speak against a gradient, the ones in
                        which two ranks' inputs were not zero */
    double pairs;    /* of such ranks, in all */
    bool later;      /* the window is one of a sum that was refused before */
    unsigned past;   /* sums remembered */
    int32_t last[SS_PAST][SS_SKETCH]; /* ring: that of call c is in c mod SS_PAST */
    uint64_t seen;                    /* calls that entered the ring */
    double level;                     /* running mean of log2(energy), of the calls that fitted */
    bool leveled;
    unsigned far;            /* calls in a row whose norm was far from it */
    unsigned against;        /* calls that spoke against a gradient */
    unsigned window_against; /* calls of this window that spoke against a gradient */
    unsigned since;          /* calls since the last one that did, or since the window began */
    enum ss_likeness why;    /* what the last one that did looked like */
    unsigned calm;           /* calls in a row after which all means were those of a gradient */
    /* Means over the calls of the window that did not speak against a gradient, the newest with
     * weight 1/8. */
    double alike, again, along, same, balance, drift, parts, overlap, stay;
    double before; /* level of the last */
    double begin;  /* mean level of the first EARLY of the window */
    double moved;  /* from there to that of the last, the newest with weight 1/4 */
    /* Means that count all of them alike. */
    double common;           /* of alike, by pairs */
    double doubt;            /* its standard error */
    double first, third;     /* of |cosine| with the last and the third last */
    double total[SS_SKETCH]; /* of the sums, each a unit vector */
    double lasting;          /* mean cosine of any two of them over that of neighbours */
    /* Of this rank: */
    double own[SS_BLOCKS]; /* sum of shares of energy by block */
    unsigned own_calls;
    int32_t mine[SS_SKETCH]; /* of its last input that was judged, and of this call's */
    int32_t now[SS_SKETCH];
    bool has_mine;
};

/* The sample of n elements: at most SS_EVIDENCE_RUNS runs, which it returns, of at most SS_RUN
 * elements, finite or not. `e` becomes what this rank shows of them. Not finite: nothing is shown.
 */
enum { SS_EVIDENCE_RUNS = SS_SAMPLE / SS_RUN };
size_t ss_evidence_runs(size_t n, struct ss_run *runs);
size_t ss_evidence_elements(size_t n); /* of all runs together, at most */
/* again: the same sample, for another vote of the same call. */
void ss_evidence_show(struct ss_evidence *e, struct ss_watch *w, enum ss_type type,
                      const void *sample, size_t n, bool again);

/* What one call was like. */
struct ss_verdict {
    bool judged;    /* all ranks have shown theirs */
    bool zero;      /* all inputs are zero */
    uint32_t ranks; /* whose input is not */
    bool alone;     /* of several, one: as in a broadcast by a sum */
    double alike;   /* mean cosine between inputs of different ranks: 1 = parallel */
    double again;   /* largest |cosine| of the sum with one of the last SS_PAST */
    double along;   /* cosine with the last */
    double third;   /* |cosine| with the third last, 0 = there is none */
    double stay; /* mean over the ranks of the cosine of an input with the rank's last; 0 = none */
    double overlap; /* of what is not zero: 0 = each element on one rank, 1 = on all */
    double balance_min, balance_max; /* 0 = one sign, 1/2 = both alike */
    double parts; /* how different the ranks' blocks are: 0 = alike, 1 = disjoint */
    double level; /* log2 of the largest mean square */
    bool far;     /* the norm is far from the past */
    bool weights; /* alike on all ranks, one sign, or the same direction again */
};
struct ss_verdict ss_watch_judge(struct ss_watch *w, const struct ss_evidence *all, int size);

/* The likeness that the view shows. */
const char *ss_likeness_text(enum ss_likeness likeness);

/* The calls of the window. */
enum ss_likeness ss_watch_likeness(const struct ss_watch *w);

/* The same for a tensor that a rule or the program has declared a gradient and that is looked at
 * once in many calls, by GUARD: what speaks against it, SS_LIKE_GRADIENT where nothing does. */
enum ss_likeness ss_watch_doubt(const struct ss_watch *w);

/* A new window, of a sum that was refused; the past stays. All: nothing stays. */
void ss_watch_restart(struct ss_watch *w);
void ss_watch_free(struct ss_watch *w);

#endif
