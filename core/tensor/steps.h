/* The step of a communicator: the shortest period of its lane sequence, confirmed over three
 * periods (core/README.md, Identity). Only lane numbers, voted labels and voted levels enter, so
 * that all ranks find the same.
 *
 * Where there is no period, lanes that came each once, three times over, are a step without an
 * order: each has the ordinal 0. It ends as soon as one of them comes twice.
 *
 * Once confirmed, the cycle is kept. A call it does not expect neither moves it nor forgets it:
 *  - a lane that is not in the cycle (evaluation, a metric now and then) is foreign, and the cycle
 *    waits where it was;
 *  - a lane of the cycle out of turn (a step cut short) means that the place is lost until the
 *    expected lane comes, or until the last calls (2 or more) fit one other place of the cycle at
 *    least twice as long as any other.
 * Another period takes over when it has held for three times the longer of the two, in a stretch in
 * which the present cycle met unexpected calls; three times itself is enough where the present
 * cycle has expected nothing for as long. Unless it has all lanes of the present one (it explains
 * more), it must also have held for as many calls as the present one has been seen, up to 128 calls
 * and 16 periods. The cycle it replaces is remembered with its ordinals and resumes as soon as its
 * lanes return, unless the new one has all its lanes, as often as it or in a way that the cycle
 * would not be known again by. A cycle is forgotten after 2 SS_STEP_LONGEST calls in a row that it
 * did not expect.
 *
 * Calls of a lane that comes several times in a step, equal layers, are also told by marks: whether
 * small calls came just before, a loss, and whether the program had seen all calls before it end.
 * Where such a call does not have the marks that its place in the cycle has had in each step, and
 * another place fits the last calls, marks included, at least twice as long as any other, it goes
 * on from there, and calls of such lanes are trusted again when the cycle has been passed through
 * once: layers that are frozen, or a step cut short. While the cycle's marks tell its places apart
 * another period must hold for marks, too.
 *
 * Where a lane comes several times, but not as often as before, its ordinals are new ones: which
 * layer is gone cannot be known. The former ones come back with their cycle.
 *
 * A step begins with the first call of the stretch in which its period holds; where the step in
 * force was only changed (a layer added), where it then has most of its lanes alike.
 *
 * So twelve equal layers and one other call are a step of 13, although the first three calls alone
 * look like a step of one. A short step interrupted always after the same number of steps reads
 * alike. Levels, the logarithms of the norms of inputs and of their parts, may tell: those of
 * layers differ, and are the same again a step later; so are told layers with nothing between their
 * steps. Else up to 16 repetitions (32 where levels are not known), or where they are less than 7/8
 * of the calls, are one long step: its calls are then tensors of their own, which may separate too
 * much but mixes nothing. Beyond, the short step stays and the rest is foreign; so it does from 7
 * on where the rest are lanes of the step called from elsewhere, as when weights are averaged. A
 * step whose levels vary by more than a factor of 1.4 in the norm, or in whose inputs parts are
 * zero in one call and not in the next, is trusted late.
 */
#ifndef CORE_TENSOR_STEPS_H
#define CORE_TENSOR_STEPS_H

#include "core/base/types.h"
#include "core/compute/vector.h"

enum {
    SS_STEP_LONGEST = 512,    /* calls of the longest step that is found */
    SS_STEP_CYCLES = 4,       /* cycles remembered */
    SS_STEP_LAST_LANE = 65535 /* lanes from this number on count as one */
};

enum ss_step_sync {
    SS_STEP_UNKNOWN, /* no period confirmed yet: ordinal 0 */
    SS_STEP_IN,      /* where the cycle expects it */
    SS_STEP_FOREIGN, /* a lane that is not in the cycle: ordinal 0 */
    SS_STEP_LOST /* a lane of the cycle out of turn: ordinal 0 where the lane comes once per step,
                    else SS_ORDINAL_LOST, and no residual of the lane may be used */
};

#define SS_ORDINAL_LOST UINT32_MAX

/* Where a call stands. */
struct ss_step_place {
    enum ss_step_sync sync;
    uint32_t ordinal; /* of this call within its lane in the step */
    uint32_t period;  /* calls per step, 0 = unknown */
    uint32_t call;    /* which call of the step this is, from 1; 0 = unknown */
    uint64_t step;    /* number of the step, from 0; never goes back */
    uint64_t turn;    /* steps of this cycle alone, from 1 */
    uint64_t since;   /* the step in which this cycle was found */
    bool settled;     /* in place, and the cycle can be trusted: 16 calls and 3 periods without an
                         unexpected one just before, 6 calls and 3 periods where levels show that
                         they are of the same gradients, or 128 calls and 3 periods in place in all
                         and 8 of them to each interruption;
                         without an order 48 calls and 16 steps */
};

static inline bool ss_step_confirmed(const struct ss_step_place *place)
{
    return place->sync == SS_STEP_IN;
}

struct ss_step_cycle {
    uint16_t length; /* 0: free */
    uint16_t next;   /* position expected next */
    uint32_t seen;   /* calls in their place, saturating */
    uint32_t breaks; /* stretches of others between them */
    uint64_t since;  /* the step in which it was found */
    uint64_t turns;  /* steps */
    uint32_t used;   /* clock of its last use, for replacement */
    bool even;       /* levels have shown that its calls are of the same gradients */
    bool told;       /* marks tell its places apart */
    bool any_order;  /* each lane once, in whatever order */
    uint16_t came;   /* any_order: how many in this step, and which */
    bool seen_here[SS_STEP_LONGEST];
    uint32_t lane[SS_STEP_LONGEST];
    uint32_t ordinal[SS_STEP_LONGEST];
    /* Of calls of lanes that come several times: marks, those that are not the same in each step,
     * and what speaks against them. */
    uint8_t mark[SS_STEP_LONGEST], varies[SS_STEP_LONGEST], strikes[SS_STEP_LONGEST];
};

/* What stands between a call and the one before it. */
enum ss_step_mark {
    SS_STEP_AFTER_SMALL = 1, /* calls of a few numbers */
    SS_STEP_AFTER_ALL = 2,   /* the program has seen all calls before it end */
    SS_STEP_MARKS = 3
};

/* What all ranks know of a call's inputs. */
enum { SS_STEP_OCTAVE = 8 /* units to a power of two */, SS_STEP_PARTS = 32 };
struct ss_step_level {
    int16_t norm;                /* logarithm of the largest squared norm, 0: not known */
    uint8_t part[SS_STEP_PARTS]; /* of the largest share of each part, 255 = all; 0: as good as
                                    none; all 0: not known */
    uint8_t small;               /* calls of a few numbers just before */
};

/* About 64 KiB. Zero-initialised = nothing seen. */
struct ss_steps {
    uint32_t since_out; /* calls since the last one not expected, saturating */
    uint32_t outs;      /* of those, in a row until now */
    uint32_t clock;
    uint32_t end; /* of the history */
    int current;  /* cycle in force + 1, 0 = none */
    bool lost;    /* a lane of it has come out of turn since the last call in place */
    uint64_t step;
    uint16_t run[SS_STEP_LONGEST + 1];    /* by period: calls in a row equal to that many before */
    uint16_t plain[SS_STEP_LONGEST + 1];  /* the same without labels */
    uint16_t marked[SS_STEP_LONGEST + 1]; /* the same as run, where marks are equal, too */
    uint32_t history[2 * SS_STEP_LONGEST];
    uint8_t mark[2 * SS_STEP_LONGEST];               /* of each */
    struct ss_step_level level[2 * SS_STEP_LONGEST]; /* likewise */
    uint8_t coming;                                  /* marks of the call to come */
    uint8_t carried;                                 /* and of foreign ones just before it */
    uint8_t no_marks;                                /* those that do not count */
    bool used;                                       /* marks could have moved the last call */
    uint16_t doubted;           /* calls in place to come before the place is trusted */
    uint32_t too_short, barred; /* periods up to that one are none, for so many calls */
    uint32_t ordinals;          /* given so far, of lanes that come several times */
    bool blind;                 /* levels do not count */
    bool labelled;              /* a label has been seen */
    struct ss_step_cycle cycles[SS_STEP_CYCLES];
};

/* Takes in one eligible call; lanes have small numbers. Calls of one lane with other labels, below
 * 65536, count as those of other lanes. At most O(SS_STEP_LONGEST) time where the cycle holds. */
struct ss_step_place ss_steps_next(struct ss_steps *steps, uint32_t lane, uint32_t label);

/* Whether calls of the lane with that label have the ordinal in a cycle that is remembered. */
bool ss_steps_know(const struct ss_steps *steps, uint32_t lane, uint32_t label, uint32_t ordinal);

/* The voted squared norm of the inputs of the call taken in last, 0: not known; their parts
 * (SS_STEP_PARTS of them, NULL: not known); how many calls of a few numbers came between it and
 * the one before, 0: none, or not the same on all ranks. Only where all ranks have it before the
 * next call: else levels are given up for good, on all ranks before the same call. */
void ss_steps_level(struct ss_steps *steps, double square, const uint8_t *parts, uint8_t small);
void ss_steps_blind(struct ss_steps *steps);

/* Before ss_steps_next: the marks of the call to come, none where it is not called. Returns those
 * that count. Marks count only as long as all ranks see the same: those of ss_steps_unmark no more,
 * on all ranks from the same call on. at_once: the call taken in last is the first in which ranks
 * differ; else cycles are found anew. Steps and new ordinals are from `calls` on then, so many
 * calls as there were so far. */
unsigned ss_steps_mark(struct ss_steps *steps, unsigned marks);
void ss_steps_unmark(struct ss_steps *steps, unsigned marks, bool at_once, uint32_t calls);
unsigned ss_steps_marks(const struct ss_steps *steps); /* those that count */

/* A call was made before the program had seen the former one of the same lane and ordinal end, in a
 * step of that period (0: unknown): they are different tensors, and the step is longer. */
void ss_steps_too_short(struct ss_steps *steps, uint32_t period);

/* The number will mean another lane: cycles that it is part of are forgotten, and its calls equal
 * no other call. */
void ss_steps_forget(struct ss_steps *steps, uint32_t lane);

/* The sample of n elements that it is taken from, at most `most` of them, ss_sample_runs of each of
 * SS_STEP_PARTS equal parts: returns how many runs. most: a multiple of SS_STEP_PARTS runs, of
 * which `runs` holds SS_STEP_PARTS or all. */
size_t ss_steps_runs(size_t n, size_t most, struct ss_run *runs);
/* This rank's share of it, from the elements of that sample: the squared norm of all n elements;
 * logarithms of the shares of the parts, to be combined by max. The second: of nnz entries at
 * ascending idx < n, all others being zero. */
double ss_steps_parts(enum ss_type type, const void *sample, size_t n, size_t most, uint8_t *parts);
double ss_steps_parts_sparse(enum ss_type type, const uint32_t *idx, const void *val, size_t nnz,
                             size_t n, uint8_t *parts);

/* Whether the labels of the lane come without a pattern, where the lanes without their labels have
 * a period, and levels say that it is one gradient all the same: to be joined. */
bool ss_steps_irregular(const struct ss_steps *steps, uint32_t lane);

/* Labels of the lane do not count any more, and have not in what was seen; its calls from here on
 * have label 0. */
void ss_steps_join(struct ss_steps *steps, uint32_t lane);

#endif
