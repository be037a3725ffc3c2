/* The option table: the only place where an option exists. */
#include "config/parts.h"

#include <stdio.h>
#include <string.h>

#define FIELD(member) offsetof(struct cfg_options, member)

/* The words of a list, as in "auto, u32, packed": each comes with the ", " before it. */
#define WORD(id, word) ", " #word
#define WORDS(LIST)    (&(LIST(WORD))[sizeof ", " - 1])

#define VALUE_TYPES(X) SS_VALUES_LIST(X) SS_QSGD_LIST(X)

#define COUNT_TEXT   "elements, 0 or more, such as 65536, 64Ki, 16M (= 16,000,000) or 1e6"
#define SECONDS_TEXT "measured, or seconds, 0 or more, such as 2e-5, 20us or 0.02ms"

enum { USER, EXPERT };

const struct cfg_option cfg_table[] = {
    {"DISABLE", CFG_BOOL, "off", "on, off",
     "on: the library does nothing. Every call passes through: the MPI library gets it "
     "unchanged. No thread starts, no file is written. Give all ranks the same value: ranks "
     "with the library on may wait for ranks with it off.",
     FIELD(disable), false, USER},
    {"CONFIG", CFG_TEXT, "", "a file, or @NAME for the profile NAME.conf",
     "A further file of options, over the site's sparseshim.conf and under the environment. A "
     "profile is looked for in ~/.config/sparseshim ($XDG_CONFIG_HOME/sparseshim), then in "
     "SYSCONFDIR/sparseshim.d. If it cannot be read, sparseshim run refuses to start, and "
     "the first call that could be served is an MPI error.",
     FIELD(config), false, USER},
    {"PROGRAMS", CFG_TEXT, "",
     "names with * and ?, separated by blanks; ! before a name leaves it out",
     "The programs that are served, by their file names. A Python program has the name of its "
     "script, or of the module behind -m, such as mpi4py. Calls of other programs pass "
     "through, and so do all calls on a communicator with a rank of such a program. Empty: all "
     "programs.",
     FIELD(programs), false, USER},
    {"MODE", CFG_CHOICE, "exact", "observe, learn, exact, topk, quant",
     "exact sends the elements that are not zero; the result is the sum of the MPI library, up "
     "to the order of additions. topk sends the largest elements of the gradients that "
     "REGISTER names, and keeps the others in a residual, which joins the next call of the "
     "same gradient. quant sends all elements of these gradients in few bits; what rounding leaves "
     "waits in the residual. It is topk with other defaults of DENSITY and VALUE_TYPE. observe "
     "changes no result and reports the possible gain. learn changes no "
     "result and records sums; `sparseshim learn` sets it for its trial run.",
     FIELD(mode), true, USER},
    {"MIN_COUNT", CFG_COUNT, "65536", COUNT_TEXT, "A call with fewer elements passes through.",
     FIELD(min_count), true, USER},
    {"DENSITY", CFG_SHARE, "0.01",
     "a share, more than 0 and up to 1, such as 0.01 or 1%; or k/B such as 4/512",
     "MODE=topk and quant: the part of a gradient that each rank sends; the default of MODE=quant "
     "is 1. 0.01 or 1% is a hundredth of its "
     "elements; 4/512 is the 4 largest of each 512 elements.",
     FIELD(density), true, USER},
    {"REGISTER", CFG_TEXT, "", "rules, separated by ';' or blanks",
     "Lossy modes: rules that name the sums which are gradients and may be lossy. `sparseshim "
     "learn` finds them and writes the rules, such as count=1000000:calls=1. Empty: only buffers "
     "that the program registers itself are lossy.",
     FIELD(include), true, USER},
    {"EXCLUDE", CFG_TEXT, "", "rules as for REGISTER, without what follows ':'",
     "Lossy modes: rules that name sums which stay exact, whatever REGISTER says.", FIELD(exclude),
     true, USER},
    {"WARMUP_STEPS", CFG_COUNT, "0", "calls, 0 or more",
     "MODE=topk: the density of a gradient falls from 1 to DENSITY in this number of its lossy "
     "calls, by the same factor in each.",
     FIELD(warmup_steps), true, EXPERT},
    {"VALUE_TYPE", CFG_CHOICE, "same", WORDS(VALUE_TYPES),
     "MODE=topk and quant: the form in which values are sent; the default of MODE=quant is q4. "
     "same: that of the buffer. bf16: 16 bits (bfloat16). q8, q4, q2: 8, 4 or 2 bits, with a scale "
     "per 128 values in MODE=quant and per 1024 otherwise. Values are rounded to nearest, and the "
     "rounding error stays in the residual. qsgd8, qsgd4, qsgd2: rounded at random, correct in the "
     "mean, and the error is lost (QSGD).",
     FIELD(value_type), true, EXPERT},
    {"GUARD", CFG_CHOICE, "warn", WORDS(SS_GUARD_LIST),
     "Lossy modes: compares the result with the sum of all elements, in lossy calls 8, 16, 32, "
     "... 256 of a gradient and then in every 256th. The result has come apart if the cosine "
     "between both is below -0.1, or if the residual of a rank is more than 10 / DENSITY times "
     "as large as its input. warn then logs a warning; exact also makes the gradient exact.",
     FIELD(guard), true, USER},
    {"QUORUM", CFG_CHOICE, "all", WORDS(SS_QUORUM_LIST),
     "Lossy modes: the ranks that the allreduce of a gradient waits for. all: every rank. solo: "
     "the first to arrive. majority: a rank drawn by lot, so that half of the ranks have "
     "arrived on average. The gradient of a later rank joins its residual, and is sent in a "
     "later call. solo and majority need a rule of REGISTER with calls=N. They raise the "
     "thread level, as PROGRESS=watchdog does.",
     FIELD(quorum), true, EXPERT},
    {"ALGORITHM", CFG_CHOICE, "auto", "auto" SS_ALGORITHM_LIST(WORD) ", dense",
     "The algorithm of a call. auto: the one that the cost model predicts to be the fastest, "
     "call by call. dense: all calls are left to the MPI library. oktopk and gtopk return only "
     "the largest elements of the sum; the others go to residuals. They serve gradients of which "
     "DENSITY sends a part; quantized serves those that MODE=quant sends whole. For all other "
     "calls they mean auto.",
     FIELD(algorithm), true, EXPERT},
    {"NODE_AGGREGATION", CFG_CHOICE, "auto", WORDS(SS_AGGREGATION_LIST),
     "Allreduces with several ranks on a host. on: the ranks of a host add their vectors first, "
     "each rank a part, and only these sums go over the network; ALGORITHM then names the "
     "algorithm between hosts. In lossy modes a host has one residual, and DENSITY is what each "
     "host sends. off: each rank sends to ranks of other hosts. auto: the cost model decides on "
     "exact calls, and allgather uses shared memory if there is one host; lossy calls are as "
     "with off, unless their rule has node. MERGE, QUORUM, keep and device buffers are as with "
     "off.",
     FIELD(node_aggregation), true, EXPERT},
    {"ALPHA", CFG_MEASURED, "measured", SECONDS_TEXT,
     "The latency of one message, for the cost model. If only ALPHA is given, BETA is "
     "measured. If both are given, no measured time enters any choice, and whole runs repeat "
     "bit for bit.",
     FIELD(alpha), true, EXPERT},
    {"BETA", CFG_MEASURED, "measured", "measured, or seconds per byte, 0 or more, such as 8e-8",
     "The time per byte on the link of one rank, for the cost model: 8e-8 at 100 Mbit/s. If "
     "ranks share a host: measured while all of them send.",
     FIELD(beta), true, EXPERT},
    {"REPRODUCIBLE", CFG_BOOL, "off", "on, off",
     "on: no measured time enters any choice, and runs repeat bit for bit. The cost model "
     "takes ALPHA and BETA, or, if these are not given, a table. Communicators of equal size "
     "and layout give equal bits for equal inputs.",
     FIELD(reproducible), true, USER},
    {"MAX_MEMORY", CFG_SIZE, "1/4 RAM",
     "1/4 RAM (over the ranks on the host), or bytes, more than 0, such as 500M (= 500,000,000), "
     "512Mi or 2GiB",
     "Memory of the library on one rank, for residuals and work space. A call that would need "
     "more passes through, and the report counts it. 1/4 RAM: a quarter of the host's memory, "
     "divided by the ranks on the host. A smaller limit of a container or a batch system does "
     "not count: give bytes there.",
     FIELD(max_memory), false, USER},
    {"TIMEOUT", CFG_TIMEOUT, "off", "off, or seconds, more than 0, such as 30, 2.5 or 500ms",
     "Time that a call waits without progress. Then it returns an MPI error that names the "
     "rank, the rank that it waits for, and the step of the protocol. off: the call waits for "
     "ever.",
     FIELD(timeout), true, USER},
    {"PROGRESS", CFG_CHOICE, "auto", "auto, watchdog, thread, off",
     "Which nonblocking calls are served. off: none. watchdog: all, on communicators that "
     "the ranks agree on where they are made; the library raises the "
     "program to MPI_THREAD_MULTIPLE, and a thread of the library moves a call on while the "
     "program makes no MPI call. thread: as watchdog, but the thread does all the work, beside "
     "the computation. auto: as watchdog in a lossy mode with a rule in REGISTER. Otherwise auto "
     "raises nothing: it serves programs that ask for MPI_THREAD_MULTIPLE on all ranks, on "
     "communicators where a blocking call that could be served came before.",
     FIELD(progress), true, USER},
    {"MERGE", CFG_MERGE, "off", "off, auto, or bytes, more than 0, such as 4M (= 4,000,000) or 8Mi",
     "MODE=topk: neighbouring nonblocking calls of one communicator form a group, which is "
     "sent as one call. bytes: the size of a complete group. auto: the groups with which a "
     "step is predicted to end soonest; if measured steps are faster with each call alone, "
     "none. No bit of a result depends on the groups. Calls below MIN_COUNT take part if a "
     "rule of REGISTER names their count.",
     FIELD(merge), true, EXPERT},
    {"DEVICE", CFG_CHOICE, "auto", "auto, cpu, cuda",
     "Buffers in device memory, in a program that has loaded CUDA's driver. auto: calls that "
     "can be served run on the device, and only the elements that are sent are copied to the "
     "host. Other blocking calls of the served functions run on copies in host memory. Under an "
     "MPI library that is CUDA-aware, auto leaves calls with device buffers to it; cuda serves "
     "them there, too. cpu makes no CUDA call, and is for programs whose buffers all lie in host "
     "memory.",
     FIELD(device), false, EXPERT},
    {"DEBUG", CFG_CHOICE, "warn", "none, warn, info, trace",
     "Messages that are logged. none: no line at all. warn: what the user should act on, some "
     "lines once per job, some from each rank. info: also each decision, once per job: the "
     "communicators that are served, the sums that become lossy or stay exact and why, the "
     "algorithm of each call signature. trace: also a line of each rank for each call that could "
     "be served.",
     FIELD(debug), false, USER},
    {"DEBUG_FILE", CFG_TEXT, "stderr",
     "stderr, or a path; %h host, %p process, %r rank, %j job, %u user, %% a percent sign",
     "File of the messages. A new file has mode 0600. The library appends to a file of your "
     "own or a device such as /dev/null, and follows no link. %j is the job number of the "
     "batch system or PMIx, else the number of the launcher's process.",
     FIELD(debug_file), false, EXPERT},
    {"REPORT", CFG_CHOICE, "off", "off, rank0, all",
     "Ranks that print a report to the standard error output at the end of the job: calls "
     "seen, made sparse, passed through and why, bytes and time. With REPORT_DIR each of them "
     "writes a file, and rank 0 alone prints.",
     FIELD(report), false, USER},
    {"REPORT_DIR", CFG_TEXT, "", "a directory, %h %p %r %j %u %% as for DEBUG_FILE; or nothing",
     "Directory of reports as JSON, which sparseshim report shows. Each rank that REPORT names "
     "writes a file (mode 0600), anew every 10 s until the job ends; REPORT=off writes none. "
     "The library makes the directory if the one above it is there.",
     FIELD(report_dir), false, USER},
    {"TRACE", CFG_TEXT, "", "a directory, %h %p %r %j %u %% as for DEBUG_FILE; or nothing",
     "Directory of traces: each rank writes the time spans of its calls as Chrome trace events "
     "(mode 0600, up to 256 MiB). The library makes the directory if the one above it is "
     "there. sparseshim report --trace merges the ranks.",
     FIELD(trace), false, EXPERT},
    {"TORCH", CFG_BOOL, "on", "on, off",
     "on: sparseshim run lets torch.distributed of Python programs run over MPI, by mpi4py, if "
     "they ask for gloo, nccl or mpi and MPI started several ranks. off: gloo and nccl make no "
     "MPI call.",
     FIELD(torch), false, USER},
    {"STRICT", CFG_BOOL, "off", "on, off",
     "on: a setting that is not valid is an MPI error at the first call that could be served: "
     "a bad value or rule, an option that is gone, an option that takes its default for lack of "
     "another one, a file that cannot be read. A name that is not known stays a warning. off: "
     "all of these are warnings, and the former value stands.",
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
