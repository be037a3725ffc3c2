#ifndef CORE_PLAN_HOST_COSTS_H
#define CORE_PLAN_HOST_COSTS_H

/* Costs of this process's own work, measured at first use (a fraction of a millisecond). */
struct ss_host_costs {
    double code;  /* seconds per entry encoded or decoded */
    double merge; /* seconds per entry added to the result */
    double fill;  /* seconds per byte cleared */
};
const struct ss_host_costs *ss_host_costs(void);

#endif
