/* The option table: the only place where an option exists. */
#include "config/parts.h"

#include <stdio.h>
#include <string.h>

#define FIELD(member) offsetof(struct cfg_options, member)

/* The words of a list, as in "auto, u32, packed": each comes with the ", " before it. */
#define WORD(id, word) ", " #word
#define WORDS(LIST)    (&(LIST(WORD))[sizeof ", " - 1])

#define COUNT_TEXT   "elements, 0 or more, such as 65536, 64Ki, 16M (= 16,000,000) or 1e6"
#define SECONDS_TEXT "measured, or seconds, 0 or more, such as 2e-5, 20us or 0.02ms"

enum { USER, EXPERT };

const struct cfg_option cfg_table[] = {
    {"DISABLE", CFG_BOOL, "off", "on, off", "Passes every call on to the MPI library untouched.",
     FIELD(disable), false, USER},
    {"CONFIG", CFG_TEXT, "", "a file, or @NAME for the profile NAME.conf",
     "Options are read from this file too. It overrides the system's sparseshim.conf and is "
     "overridden by the environment. A profile is looked for in ~/.config/sparseshim "
     "($XDG_CONFIG_HOME/sparseshim), then in SYSCONFDIR/sparseshim.d.",
     FIELD(config), false, USER},
    {"PROGRAMS", CFG_TEXT, "",
     "names with * and ?, separated by blanks; ! before one leaves it out",
     "Programs that are served, by their file names; a Python program by the name of its script, "
     "or "
     "of the module behind -m, such as mpi4py. A communicator on which another program runs as "
     "well "
     "passes through. Empty: all.",
     FIELD(programs), false, USER},
    {"MODE", CFG_CHOICE, "exact", "observe, learn, exact, topk",
     "observe changes nothing and reports the possible gain. learn changes nothing and records "
     "sums "
     "for `sparseshim learn`, which sets it. exact sends only the non-zero entries and gives the "
     "sum of a dense allreduce, up to the order of additions. topk sends the largest entries of "
     "registered gradients and keeps the rest for the next call.",
     FIELD(mode), true, USER},
    {"MIN_COUNT", CFG_COUNT, "65536", COUNT_TEXT,
     "A call with fewer elements is passed on untouched.", FIELD(min_count), true, USER},
    {"DENSITY", CFG_SHARE, "0.01",
     "a share, more than 0 and up to 1, such as 0.01 or 1%; or k/B such as 4/512",
     "MODE=topk: the part of a gradient that each rank sends, as a share of its elements, or as "
     "the "
     "k largest of each B elements.",
     FIELD(density), true, USER},
    {"REGISTER", CFG_TEXT, "", "rules, separated by ';' or blanks",
     "MODE=topk: buffers that are gradients and may be lossy. A rule is count=LO:HI, type=float, "
     "comm=NAME or site=MODULE+OFFSET, joined by ','. A rule may end in :density=D (0.01 or 1%), "
     ":k=K/B, :algorithm=NAME, :keep=first:N or :keep=last:N (elements that are always sent "
     "exactly) or :calls=N (calls per step). The first rule that matches wins. Empty: nothing is "
     "lossy; sparseshim learn finds the gradients of a program and writes the rules.",
     FIELD(include), true, USER},
    {"EXCLUDE", CFG_TEXT, "", "rules as for REGISTER, without what follows ':'",
     "MODE=topk: buffers that stay exact.", FIELD(exclude), true, USER},
    {"WARMUP_STEPS", CFG_COUNT, "0", "calls, 0 or more",
     "MODE=topk: calls of a buffer over which its density falls to DENSITY, exponentially.",
     FIELD(warmup_steps), true, EXPERT},
    {"VALUE_TYPE", CFG_CHOICE, "same", WORDS(SS_VALUES_LIST),
     "MODE=topk: the form in which values of entries are sent. bf16, or 8, 4, 2 bits with a scale "
     "per 1024 values, rounded to nearest; the rounding error stays in the residual.",
     FIELD(value_type), true, EXPERT},
    {"QUANT_BITS", CFG_CHOICE, "off", "off, 8, 4, 2",
     "MODE=topk, dsar: bits per element of the dense second phase.", FIELD(quant_bits), true,
     EXPERT},
    {"QUANT_FEEDBACK", CFG_BOOL, "on", "on, off",
     "QUANT_BITS: on rounds to nearest and keeps the error in the residual; off rounds at random, "
     "correct in the mean (QSGD), and keeps no error.",
     FIELD(quant_feedback), true, EXPERT},
    {"GUARD", CFG_CHOICE, "warn", WORDS(SS_GUARD_LIST),
     "MODE=topk: in calls 8, 16, 32, ... 256 of a buffer and then in every 256th the library "
     "compares the result with the dense sum. If they have come apart, warn logs a warning, and "
     "exact also makes the buffer exact.",
     FIELD(guard), true, USER},
    {"QUORUM", CFG_CHOICE, "all", WORDS(SS_QUORUM_LIST),
     "MODE=topk, buffers that a rule of REGISTER names: the ranks that an allreduce waits for. "
     "solo: the first to arrive; majority: one drawn by lot, so that half of them have arrived on "
     "average; all: every rank. A late gradient joins the next round through the residual. QUORUM "
     "needs MPI_THREAD_MULTIPLE.",
     FIELD(quorum), true, EXPERT},
    {"ALGORITHM", CFG_CHOICE, "auto", "auto" SS_ALGORITHM_LIST(WORD) ", dense",
     "The collective. auto takes, call by call, the one that the cost model predicts to be the "
     "fastest. oktopk and gtopk keep only the largest entries of the sum; they serve registered "
     "gradients (MODE=topk), and for all other calls they mean auto.",
     FIELD(algorithm), true, EXPERT},
    {"ALPHA", CFG_MEASURED, "measured", SECONDS_TEXT,
     "Latency of one message for the cost model; given without BETA, BETA is measured. With ALPHA "
     "and BETA given no measured time enters any choice, and whole runs repeat bit for bit.",
     FIELD(alpha), true, EXPERT},
    {"BETA", CFG_MEASURED, "measured", "measured, or seconds per byte, 0 or more, such as 8e-8",
     "Inverse bandwidth of one rank's link for the cost model: 100 Mbit/s are 8e-8.", FIELD(beta),
     true, EXPERT},
    {"REPRODUCIBLE", CFG_BOOL, "off", "on, off",
     "on: no measured time enters any choice. The costs are ALPHA and BETA, or, if these are not "
     "given, those of a table for ranks of one host or of several. Runs repeat bit for bit, and "
     "communicators of equal size and layout give equal bits for equal inputs.",
     FIELD(reproducible), true, USER},
    {"MAX_MEMORY", CFG_SIZE, "1/4 RAM",
     "1/4 RAM (over the ranks on the host), or bytes, more than 0, such as 500M (= 500,000,000), "
     "512Mi or 2GiB",
     "Memory of the library on one rank, residuals included. A call that would need more is passed "
     "on untouched, and the report counts it.",
     FIELD(max_memory), false, USER},
    {"TIMEOUT", CFG_TIMEOUT, "off", "off, or seconds, more than 0, such as 30, 2.5 or 500ms",
     "Time that any internal wait may last. After it the call returns an MPI error that names "
     "rank, peer and phase.",
     FIELD(timeout), true, USER},
    {"SEED", CFG_COUNT, "1", "a whole number",
     "Seed of the random rounding of QUANT_FEEDBACK=off and of the lots of QUORUM=majority.",
     FIELD(seed), true, EXPERT},
    {"PROGRESS", CFG_CHOICE, "auto", "auto, watchdog, thread, off",
     "Nonblocking calls. auto serves them if the application runs at MPI_THREAD_MULTIPLE on all "
     "ranks, on communicators that had an eligible blocking call; with MODE=topk and a rule in "
     "REGISTER auto means watchdog. watchdog raises every application to MPI_THREAD_MULTIPLE, and "
     "a "
     "thread of the library moves the calls while the application does not. thread raises it, too, "
     "and its thread does all the work during the computation. off passes the calls on.",
     FIELD(progress), true, USER},
    {"MERGE", CFG_MERGE, "off", "off, auto, or bytes, more than 0, such as 4M (= 4,000,000) or 8Mi",
     "MODE=topk: neighbouring nonblocking calls of one communicator vote together and are sent as "
     "one. bytes: a group is complete at so many bytes of its buffers. auto: the groups that end a "
     "step soonest, by plans and trials. Each call keeps its own residual, and no bit of a result "
     "depends on the groups. Calls below MIN_COUNT take part if a rule of REGISTER names their "
     "count.",
     FIELD(merge), true, EXPERT},
    {"DEVICE", CFG_CHOICE, "auto", "auto, cpu, cuda",
     "Buffers in device memory, in a program that has loaded CUDA's driver. auto: eligible calls "
     "run on the device, and only entries that are sent cross to the host; dense calls, and calls "
     "that are not eligible, run on copies on the host. An MPI library that is CUDA-aware gets all "
     "calls untouched. cuda: as auto, also under a CUDA-aware MPI library. cpu makes no CUDA call: "
     "the MPI library gets the buffers of the program.",
     FIELD(device), false, EXPERT},
    {"DEBUG", CFG_CHOICE, "warn", "none, warn, info, trace",
     "Messages that are logged. info logs each decision once per job: the communicators that are "
     "served, the buffers that become lossy or stay exact and why, the collective of each call "
     "signature. trace logs a line for each eligible call of each rank.",
     FIELD(debug), false, USER},
    {"DEBUG_FILE", CFG_TEXT, "stderr",
     "stderr, or a path; %h host, %p process, %r rank, %j job, %u user, %% a percent sign",
     "File of the messages. A new file has mode 0600. The library appends to a file of your own or "
     "a "
     "device such as /dev/null, and follows no link. %u is the variable USER, else LOGNAME, else "
     "the "
     "number of the user.",
     FIELD(debug_file), false, EXPERT},
    {"REPORT", CFG_CHOICE, "off", "off, rank0, all",
     "Ranks that print a report at the end of the job: calls seen, made sparse, passed through and "
     "why, bytes and time.",
     FIELD(report), false, USER},
    {"REPORT_DIR", CFG_TEXT, "",
     "a directory, %h %p %r %j %u %% as for DEBUG_FILE; or nothing for the standard error output",
     "Directory of reports as JSON, which sparseshim report prints. Each rank that REPORT names "
     "writes a file (mode 0600), anew every 10 s until the job ends. The last directory is made if "
     "it is missing. REPORT=off writes none.",
     FIELD(report_dir), false, USER},
    {"TRACE", CFG_TEXT, "", "a directory, %h %p %r %j %u %% as for DEBUG_FILE; or nothing",
     "Directory of traces: each rank writes the time spans of its calls as Chrome trace events "
     "(mode "
     "0600, up to 256 MiB). The last directory is made if it is missing; sparseshim report --trace "
     "merges the ranks.",
     FIELD(trace), false, EXPERT},
    {"STRICT", CFG_BOOL, "off", "on, off",
     "on: a bad value or an unreadable file is an MPI error at the first eligible call. off: it "
     "gets "
     "a warning, and the former value stands.",
     FIELD(strict), false, USER},
};

_Static_assert(sizeof cfg_table / sizeof cfg_table[0] == CFG_ROWS, "CFG_ROWS counts the table");

size_t cfg_find(const char *name)
{
    for (size_t i = 0; i < CFG_ROWS; i++)
        if (cfg_same(cfg_table[i].name, name))
            return i;
    return SIZE_MAX;
}

size_t cfg_config_row(void)
{
    size_t row = 0;
    while (cfg_table[row].offset != FIELD(config))
        row++;
    return row;
}

const char *cfg_source_name(enum cfg_source source)
{
    switch (source) {
    case CFG_FROM_DEFAULT:
        return "default";
    case CFG_FROM_SYSTEM_FILE:
        return "system file";
    case CFG_FROM_USER_FILE:
        return "file named by CONFIG";
    case CFG_FROM_ENVIRONMENT:
        return "environment";
    }
    return "unknown";
}
