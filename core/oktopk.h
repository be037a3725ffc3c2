/* State of core/coll_oktopk.c; included by core/call_impl.h. */
#ifndef CORE_OKTOPK_H
#define CORE_OKTOPK_H

struct ss_oktopk_state {
    struct ss_split_state split;
    struct ss_gather_state gather;
};

#endif
