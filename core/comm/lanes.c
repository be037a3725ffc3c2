/* The lanes of a communicator. The sequence of calls and the votes alone decide which lanes are
 * remembered, so that all ranks remember the same. No function here allocates, and no address, time
 * or local state matters. */
#include "core/comm/communicator.h"

uint64_t ss_lane_hash(const struct ss_lane_key *key)
{
    uint64_t h = ss_mix((uint64_t)key->kind, key->n);

    h = ss_mix(h, (uint64_t)key->type << 32 | (uint64_t)key->op);
    return ss_mix(h, (uint64_t)(unsigned)key->root << 32 | key->window);
}

static bool same_key(const struct ss_lane_key *a, const struct ss_lane_key *b)
{
    return a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root &&
           a->n == b->n && a->window == b->window;
}

/* Links are numbers of lanes + 1, 0 = none. */
static struct ss_lane *at(struct ss_lanes *lanes, uint16_t link)
{
    return link > 0 ? &lanes->list[link - 1] : NULL;
}

static uint16_t link_to(const struct ss_lane *lane)
{
    return (uint16_t)(lane->number + 1);
}

static uint16_t *bucket_of(struct ss_lanes *lanes, const struct ss_lane_key *key)
{
    return &lanes->buckets[ss_lane_hash(key) % SS_LANE_BUCKETS];
}

/* ---- the order of use ---- */

static void take_out(struct ss_lanes *lanes, struct ss_lane *lane)
{
    struct ss_lane *newer = at(lanes, lane->newer), *older = at(lanes, lane->older);

    *(newer ? &newer->older : &lanes->newest) = lane->older;
    *(older ? &older->newer : &lanes->oldest) = lane->newer;
}

static void put_first(struct ss_lanes *lanes, struct ss_lane *lane)
{
    struct ss_lane *second = at(lanes, lanes->newest);

    lane->newer = 0;
    lane->older = lanes->newest;
    *(second ? &second->newer : &lanes->oldest) = link_to(lane);
    lanes->newest = link_to(lane);
}

/* ---- replacement ---- */

/* Before a lane's number is given to another lane. */
static void forget_number(struct ss_comm *comm, uint32_t number)
{
    if (!comm->tensors)
        return;
    size_t gone = ss_tensors_forget_lane(comm->tensors, number);
    pthread_mutex_lock(&comm->stats->lock);
    comm->stats->tensors_unlisted += gone;
    pthread_mutex_unlock(&comm->stats->lock);
}

static void evict(struct ss_comm *comm, struct ss_lane *lane)
{
    struct ss_lanes *lanes = &comm->lanes;
    uint16_t *link = bucket_of(lanes, &lane->key);

    while (*link != link_to(lane))
        link = &at(lanes, *link)->chain;
    *link = lane->chain;
    take_out(lanes, lane);
    forget_number(comm, lane->number);
}

/* Returns the number of a new lane. If all are taken, evicts the lane not used for longest that
 * holds no residual; SS_LANES if all lanes hold one. */
static uint32_t make_room(struct ss_comm *comm)
{
    struct ss_lanes *lanes = &comm->lanes;
    struct ss_lane *lane;

    if (lanes->count < SS_LANES)
        return lanes->count++;
    for (lane = at(lanes, lanes->oldest); lane && lane->has_residual; lane = at(lanes, lane->newer))
        ;
    if (!lane)
        return SS_LANES;
    evict(comm, lane);
    return lane->number;
}

static void enter(struct ss_comm *comm, struct ss_lane *lane)
{
    uint16_t *bucket = bucket_of(&comm->lanes, &lane->key);

    lane->chain = *bucket;
    *bucket = link_to(lane);
    put_first(&comm->lanes, lane);
}

static uint16_t look_up(struct ss_lanes *lanes, const struct ss_lane_key *key)
{
    uint16_t link = *bucket_of(lanes, key);

    while (link > 0 && !same_key(&lanes->list[link - 1].key, key))
        link = lanes->list[link - 1].chain;
    return link;
}

bool ss_comm_knows_lane(struct ss_comm *comm, const struct ss_lane_key *key)
{
    return look_up(&comm->lanes, key) > 0;
}

struct ss_lane *ss_comm_lane(struct ss_comm *comm, const struct ss_lane_key *key, uint64_t n,
                             enum ss_type type)
{
    struct ss_lanes *lanes = &comm->lanes;
    uint16_t known = look_up(lanes, key);
    struct ss_lane *lane;

    if (known > 0) {
        lane = &lanes->list[known - 1];
        take_out(lanes, lane);
        put_first(lanes, lane);
        return lane;
    }
    uint32_t number = make_room(comm);
    lane = &lanes->list[number];
    *lane = (struct ss_lane){.key = *key, .number = number};
    lane->record =
        ss_stats_lane(comm->stats, key->kind, comm->name, comm->t->size, n, type, key->op);
    if (number < SS_LANES)
        enter(comm, lane);
    return lane;
}
