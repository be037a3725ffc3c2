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
     "Programs that are served, by file name, those of Python by that of the script, or "
     "of the module behind -m, such as mpi4py; a communicator on which another runs as well "
     "passes through. Empty: all.",
     FIELD(programs), false, USER},
    {"MODE", CFG_CHOICE, "exact", "observe, learn, exact, topk",
     "observe changes nothing and reports what could be gained; learn changes nothing and records "
     "sums for `sparseshim learn`, which sets it; exact sends only the non-zero entries and gives "
     "the sum a dense allreduce gives, up to the order of additions; topk sends the largest "
     "entries of registered gradients and keeps the rest for the next call.",
     FIELD(mode), true, USER},
    {"MIN_COUNT", CFG_COUNT, "65536", COUNT_TEXT,
     "A call with fewer elements is passed on untouched.", FIELD(min_count), true, USER},
    {"DENSITY", CFG_SHARE, "0.01",
     "a share, more than 0 and up to 1, such as 0.01 or 1%; or k/B such as 4/512",
     "MODE=topk: how much of a gradient each rank sends, as a share of its elements, or as the k "
     "largest of each B elements.",
     FIELD(density), true, USER},
    {"REGISTER", CFG_TEXT, "", "rules, separated by ';' or blanks",
     "MODE=topk: buffers to take for gradients. A rule is count=LO:HI, type=float, comm=NAME or "
     "site=MODULE+OFFSET, joined by ',', and may end in :density=D (0.01 or 1%), :k=K/B, "
     ":algorithm=NAME, "
     ":keep=first:N or :keep=last:N (elements that are always sent exactly) or :calls=N (calls "
     "per step); the first that matches wins. Empty: nothing is lossy; sparseshim learn finds the "
     "gradients of a program and writes the rules.",
     FIELD(include), true, USER},
    {"EXCLUDE", CFG_TEXT, "", "rules as for REGISTER, without what follows ':'",
     "MODE=topk: buffers that stay exact.", FIELD(exclude), true, USER},
    {"WARMUP_STEPS", CFG_COUNT, "0", "calls, 0 or more",
     "MODE=topk: calls of a buffer over which the density comes down to DENSITY, exponentially.",
     FIELD(warmup_steps), true, EXPERT},
    {"VALUE_TYPE", CFG_CHOICE, "same", WORDS(SS_VALUES_LIST),
     "MODE=topk: how the values of entries travel. bf16, or 8, 4, 2 bits with a scale per "
     "1024 of them, rounded to nearest; what rounding takes away stays in the residual.",
     FIELD(value_type), true, EXPERT},
    {"QUANT_BITS", CFG_CHOICE, "off", "off, 8, 4, 2",
     "MODE=topk, dsar: bits per element of the dense second phase.", FIELD(quant_bits), true,
     EXPERT},
    {"QUANT_FEEDBACK", CFG_BOOL, "on", "on, off",
     "QUANT_BITS: on rounds to nearest and keeps the error in the residual; off rounds at random, "
     "right in the mean (QSGD), and keeps nothing.",
     FIELD(quant_feedback), true, EXPERT},
    {"GUARD", CFG_CHOICE, "warn", WORDS(SS_GUARD_LIST),
     "MODE=topk: in calls 8, 16, 32, ... 256 of a buffer and then in every 256th its result is "
     "compared with the dense sum. Where they "
     "have come apart, warn says so, exact also makes the buffer exact.",
     FIELD(guard), true, USER},
    {"QUORUM", CFG_CHOICE, "all", WORDS(SS_QUORUM_LIST),
     "MODE=topk, buffers that a rule of REGISTER takes: which ranks an allreduce waits for. solo: "
     "the first to arrive; majority: one drawn by lot, half of them on average; all: every rank. "
     "What comes late joins the next round through the residual. It needs MPI_THREAD_MULTIPLE.",
     FIELD(quorum), true, EXPERT},
    {"ALGORITHM", CFG_CHOICE, "auto", "auto" SS_ALGORITHM_LIST(WORD) ", dense",
     "The collective. auto takes, call by call, the one that the cost model predicts to be the "
     "fastest. oktopk and gtopk keep the largest entries of the sum only; they serve registered "
     "gradients (MODE=topk), where other calls are chosen as by auto.",
     FIELD(algorithm), true, EXPERT},
    {"ALPHA", CFG_MEASURED, "measured", SECONDS_TEXT,
     "Latency of one message for the cost model; given without BETA, BETA is measured. With ALPHA "
     "and BETA given nothing timed enters "
     "any "
     "choice, and whole runs repeat bit for bit.",
     FIELD(alpha), true, EXPERT},
    {"BETA", CFG_MEASURED, "measured", "measured, or seconds per byte, 0 or more, such as 8e-8",
     "Inverse bandwidth of one rank's link for the cost model: 100 Mbit/s are 8e-8.", FIELD(beta),
     true, EXPERT},
    {"REPRODUCIBLE", CFG_BOOL, "off", "on, off",
     "on: nothing timed enters any choice, as with ALPHA and BETA given; the costs are those "
     "given, or of a table for ranks of one host or of several. Runs repeat bit for bit, and "
     "communicators of "
     "equal size and layout give equal bits for equal inputs.",
     FIELD(reproducible), true, USER},
    {"MAX_MEMORY", CFG_SIZE, "1/4 RAM",
     "1/4 RAM (over the ranks on the host), or bytes, more than 0, such as 500M (= 500,000,000), "
     "512Mi or 2GiB",
     "Work space of one rank. A call that would need more is passed on untouched, and the report "
     "says so.",
     FIELD(max_memory), false, USER},
    {"TIMEOUT", CFG_TIMEOUT, "off", "off, or seconds, more than 0, such as 30, 2.5 or 500ms",
     "Time that any internal wait may last. After it the call returns an MPI error that names "
     "rank, peer and phase.",
     FIELD(timeout), true, USER},
    {"SEED", CFG_COUNT, "1", "a whole number",
     "Of the random rounding of QUANT_FEEDBACK=off, and of the lot of QUORUM=majority.",
     FIELD(seed), true, EXPERT},
    {"PROGRESS", CFG_CHOICE, "auto", "auto, watchdog, thread, off",
     "Nonblocking calls. auto takes them over where the application runs at MPI_THREAD_MULTIPLE "
     "on all ranks, on communicators that had an eligible blocking call, and as watchdog does with "
     "MODE=topk and a REGISTER rule; watchdog raises every application to MPI_THREAD_MULTIPLE and "
     "moves its calls from a thread where it does not itself; thread does the same and has that "
     "thread do all the work beside the application; off passes them through.",
     FIELD(progress), true, USER},
    {"MERGE", CFG_MERGE, "off", "off, auto, or bytes, more than 0, such as 4M (= 4,000,000) or 8Mi",
     "MODE=topk: neighbouring nonblocking calls of one communicator vote together and are sent as "
     "one. bytes: groups are complete at so many bytes of their buffers. auto: the groups of a "
     "step that end it soonest, by plans and trials. Each call keeps its "
     "own residual, and no bit depends on who goes with whom. Calls below "
     "MIN_COUNT take part where a rule of REGISTER names their count.",
     FIELD(merge), true, EXPERT},
    {"DEVICE", CFG_CHOICE, "auto", "auto, cpu, cuda",
     "Buffers in device memory, in a program that has loaded CUDA's driver. auto: eligible calls "
     "are served there, and only what is sent crosses to the host; other calls, and those that go "
     "dense, by copies on the host. Where the MPI library says that it is CUDA-aware it gets all "
     "of them untouched; cuda serves them there, too. cpu makes no CUDA call: the MPI library gets "
     "what the program gave.",
     FIELD(device), false, EXPERT},
    {"DEBUG", CFG_CHOICE, "warn", "none, warn, info, trace",
     "How much is said. info tells each decision once per job: which communicators are met, what "
     "is "
     "admitted or refused and why, which collective a lane takes. trace has a line for each "
     "eligible call of each rank.",
     FIELD(debug), false, USER},
    {"DEBUG_FILE", CFG_TEXT, "stderr",
     "stderr, or a path; %h host, %p process, %r rank, %j job, %u user, %% a percent sign",
     "Where it is said. A new file has mode 0600; one of your own, or a device such as "
     "/dev/null, is appended to; a link is not followed. %u is the variable USER, else LOGNAME, "
     "else the number of the user.",
     FIELD(debug_file), false, EXPERT},
    {"REPORT", CFG_CHOICE, "off", "off, rank0, all",
     "Which ranks give a report at the end of the job: calls seen, made sparse, passed through and "
     "why, bytes and time.",
     FIELD(report), false, USER},
    {"REPORT_DIR", CFG_TEXT, "",
     "a directory, %h %p %r %j %u %% as for DEBUG_FILE; or nothing for the standard error output",
     "Where reports are also written as JSON (mode 0600), one file per rank that reports, anew "
     "every 10 s until the job ends; sparseshim report prints them. The last directory is "
     "made where it is missing. REPORT says of which ranks: with off there are none.",
     FIELD(report_dir), false, USER},
    {"TRACE", CFG_TEXT, "", "a directory, %h %p %r %j %u %% as for DEBUG_FILE; or nothing",
     "Where each rank writes what its calls spend their time on, as Chrome trace events (mode "
     "0600, up to 256 MiB). The last directory is made where it is missing; sparseshim report "
     "--trace merges the ranks.",
     FIELD(trace), false, EXPERT},
    {"STRICT", CFG_BOOL, "off", "on, off",
     "Makes a bad value or an unreadable file an MPI error at the first eligible call, where "
     "otherwise a warning is given and the former value stands.",
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
