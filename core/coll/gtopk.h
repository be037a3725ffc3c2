/* State of core/coll/gtopk.c; included by core/coll/coll.h. */
#ifndef CORE_COLL_GTOPK_H
#define CORE_COLL_GTOPK_H

struct ss_gtopk_state {
    struct ss_fold fold;
    int round;
    size_t k; /* entries that a merge keeps */
    struct ss_out out;
    struct ss_in in;
    struct ss_stream current; /* the largest of this rank's group */
    struct ss_stream received;
    struct ss_stream spare;   /* room for the next merge */
    struct ss_stream left;    /* what this rank cut or rounded away: ascending lists, one after the
                                 other, an index at most once in each */
    ss_magnitude *magnitudes; /* room for those of one merge */
};

#endif
