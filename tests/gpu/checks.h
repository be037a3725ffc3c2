/* Kernels against what core computes on the host, bit for bit: each check makes up some cases and
 * returns NULL or what differs. */
#ifndef TESTS_GPU_CHECKS_H
#define TESTS_GPU_CHECKS_H

#include "tests/gpu/check_encode.h"
#include "tests/gpu/check_select.h"
#include "tests/gpu/check_vector.h"

static const struct check {
    const char *name;
    const char *(*run)(struct emulated *e);
    unsigned cases;
} checks[] = {
    {"claim", check_claim, 300},
    {"overflow", check_overflow, 60},
    {"find", check_find, 120},
    {"sample", check_sample, 100},
    {"claim_exact", check_claim_exact, 120},
    {"buckets", check_buckets, 160},
    {"scan", check_scan, 200},
    {"bitmap", check_bitmap, 100},
    {"coded", check_coded, 60},
    {"rounded", check_rounded, 120},
    {"encode", check_encode, 150},
    {"rounding", check_rounding, 100},
    {"survey", check_survey, 80},
    {"entries", check_entries, 120},
    {"reduce", check_reduce, 80},
    {"dense", check_dense, 80},
    {"squares", check_squares, 60},
    {"questions", check_questions, 80},
    {"sketch", check_sketch, 40},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

/* `cases` of it, or its own number of them. */
static inline const char *run_check(const struct check *check, struct emulated *e, unsigned cases)
{
    const char *text = NULL;

    for (unsigned i = 0; i < (cases ? cases : check->cases) && !text; i++) {
        text = check->run(e);
        arrays_end();
    }
    return text;
}

#endif
