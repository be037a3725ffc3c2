/* State of core/coll_gtopk.c; included by core/call_impl.h. */
#ifndef CORE_GTOPK_H
#define CORE_GTOPK_H

struct ss_gtopk_state {
    struct ss_doubling_state doubling;
};

#endif
