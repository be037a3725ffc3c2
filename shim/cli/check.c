/* sparseshim check: would calls of this program be seen? Answered from its files alone. */
#include "shim/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shim/cli/deps.h"
#include "shim/cli/family.h"
#include "shim/cli/imports.h"
#include "shim/cli/script.h"

enum { NOBODY = -1 };

struct check {
    const char *asked;   /* as the user named it */
    char path[PATH_MAX]; /* the ELF file: the program, or what runs the script */
    struct script script;
    struct imports imports; /* of a Python script */
    struct deps deps;
    enum binary_status status;
    int mpi; /* object that implements MPI, or NOBODY */
    enum family family;
    int caller; /* first object that calls MPI_Allreduce, or NOBODY */
    bool library;

    bool seen;
    char reason[1024];
    char advice[1024];
};

/* The names of a function in C and as Fortran compilers and MPICH's mpi_f08 spell it. */
#define FORMS(name, lower)                                                                         \
    "MPI_" name, "MPI_" name "_c", "mpi_" lower "_", "mpi_" lower "__", "mpi_" lower,              \
        "mpi_" lower "_f08ts_", "mpi_" lower "_f08_", "mpi_" lower "_f08ts_large_"

static const char *const reductions[] = {
    FORMS("Allreduce", "allreduce"),
    "MPI_ALLREDUCE",
    FORMS("Iallreduce", "iallreduce"),
    FORMS("Allgather", "allgather"),
    FORMS("Allgatherv", "allgatherv"),
    FORMS("Iallgather", "iallgather"),
    FORMS("Iallgatherv", "iallgatherv"),
    FORMS("Reduce_scatter_block", "reduce_scatter_block"),
    FORMS("Reduce_scatter", "reduce_scatter"),
    FORMS("Reduce", "reduce"),
};
static const char *const nonblocking[] = {
    FORMS("Iallreduce", "iallreduce"),
    FORMS("Iallgather", "iallgather"),
    FORMS("Iallgatherv", "iallgatherv"),
};
static const char *const not_taken_over[] = {
    FORMS("Allreduce_init", "allreduce_init"),
    FORMS("Ireduce", "ireduce"),
    FORMS("Ireduce_scatter_block", "ireduce_scatter_block"),
};
static const char *const past_the_library[] = {"PMPI_Allreduce", "PMPI_Allreduce_c",
                                               "pmpi_allreduce_"};
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *object_name(const struct check *c, int i)
{
    return i == 0 ? c->path : base_name(c->deps.objects[i].path);
}

static enum binary_presence exported(const struct check *c, int i, const char *symbol)
{
    const struct binary *binary = &c->deps.objects[i].binary;
    return binary_presence(&binary->exported, symbol);
}

/* The name by which an object calls one of the functions, or NULL. */
static const char *imports(const struct check *c, int i, const char *const *names, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (exported(c, i, names[k]) == BINARY_IMPORTED)
            return names[k];
    return NULL;
}

/* The MPI library calls itself; those calls are not the application's. */
static bool part_of_mpi(const struct check *c, int i)
{
    return i != 0 && (strncmp(base_name(c->deps.objects[i].name), "libmpi", 6) == 0 ||
                      exported(c, i, "PMPI_Allreduce") == BINARY_DEFINED ||
                      exported(c, i, "pmpi_allreduce_") == BINARY_DEFINED);
}

static int first_caller(const struct check *c, const char *const *names, size_t n)
{
    for (int i = 0; i < (int)c->deps.count; i++)
        if (!part_of_mpi(c, i) && imports(c, i, names, n) != NULL)
            return i;
    return NOBODY;
}

static void find_mpi(struct check *c)
{
    c->mpi = NOBODY;
    c->family = FAMILY_NONE;
    for (int i = 0; i < (int)c->deps.count && c->mpi == NOBODY; i++)
        if (exported(c, i, "PMPI_Allreduce") == BINARY_DEFINED &&
            !cli_is_library(c->deps.objects[i].path))
            c->mpi = i;
    if (c->mpi == NOBODY) {
        for (size_t i = 0; i < c->deps.n_missing && c->family == FAMILY_NONE; i++)
            c->family = family_of_name(base_name(c->deps.missing[i]));
        return;
    }
    const struct deps_object *mpi = &c->deps.objects[c->mpi];
    const char *name = mpi->binary.soname != NULL ? mpi->binary.soname : mpi->name;
    c->family = family_of_library(base_name(name),
                                  exported(c, c->mpi, "ompi_mpi_comm_world") == BINARY_DEFINED);
}

/* Defined in the program itself, exported or not. */
static bool inside_program(const struct check *c, const char *symbol)
{
    const struct binary *binary = &c->deps.objects[0].binary;
    return binary_presence(&binary->exported, symbol) == BINARY_DEFINED ||
           binary_presence(&binary->all, symbol) == BINARY_DEFINED;
}

__attribute__((format(printf, 3, 4))) static bool verdict(struct check *c, const char *advice,
                                                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->reason, sizeof c->reason, format, args);
    va_end(args);
    snprintf(c->advice, sizeof c->advice, "%s", advice);
    return true;
}

/* The rules: each gives a verdict and returns true, or leaves the matter to the next. */

static bool is_no_program(struct check *c)
{
    if (c->status == BINARY_NOT_ELF)
        return verdict(c, "name the program itself", "%s is neither an ELF program nor a script",
                       c->path);
    if (c->status == BINARY_FOREIGN)
        return verdict(c, "build it for 64 bit on this machine",
                       "%s is not a 64-bit program of this machine's byte order", c->path);
    if (c->status == BINARY_MALFORMED)
        return verdict(c, "build or copy it again", "%s is a damaged ELF file", c->path);
    unsigned type = c->deps.objects[0].binary.type;
    if (type != ET_EXEC && type != ET_DYN)
        return verdict(c, "link it to a program", "%s is an object or core file, no program",
                       c->path);
    return false;
}

static bool is_for_another_machine(struct check *c)
{
    struct binary own;
    unsigned machine = c->deps.objects[0].binary.machine;
    char *library = cli_find_library();
    const char *path = library != NULL ? library : "/proc/self/exe";
    bool other = false;
    if (binary_open(&own, path) == BINARY_OK) {
        other = own.machine != machine;
        if (other)
            verdict(c, "use a libsparseshim.so built for the program's machine",
                    "%s is built for %s and libsparseshim.so for %s", c->path,
                    binary_machine_name(machine), binary_machine_name(own.machine));
        binary_close(&own);
    }
    free(library);
    return other;
}

static bool is_static(struct check *c)
{
    if (!binary_is_static(&c->deps.objects[0].binary))
        return false;
    return verdict(c, "link it dynamically (without -static)",
                   "%s is statically linked%s, and LD_PRELOAD does nothing for such programs",
                   c->path, inside_program(c, "MPI_Allreduce") ? ", MPI included" : "");
}

static bool is_for_musl(struct check *c)
{
    const struct binary *program = &c->deps.objects[0].binary;
    return binary_is_musl(program) &&
           verdict(c, "build it, and its MPI library, with glibc",
                   "%s is started by musl's loader (%s), which cannot load a library for glibc",
                   c->path, program->interpreter);
}

static bool is_privileged(struct check *c)
{
    const char *why = binary_privilege(c->path);
    if (why == NULL)
        return false;
    return verdict(c, "run a copy without that privilege",
                   "%s is %s, and the loader takes no LD_PRELOAD for such programs", c->path, why);
}

static bool lacks_libraries(struct check *c)
{
    if (c->deps.n_missing == 0)
        return false;
    return verdict(c, "load the module that has it, or set LD_LIBRARY_PATH, and check again",
                   "%s would not start here: %s is not found", c->path, c->deps.missing[0]);
}

static bool defines_reduction_itself(struct check *c)
{
    if (c->library || !inside_program(c, "MPI_Allreduce"))
        return false;
    if (inside_program(c, "PMPI_Allreduce"))
        return verdict(c, "link the MPI library dynamically (its .so, not its .a)",
                       "the MPI library is linked statically into %s", c->path);
    return verdict(c, "link that wrapper as a shared library, or leave it out",
                   "%s has an MPI_Allreduce of its own, which comes before every preload", c->path);
}

static bool is_switched_off(struct check *c)
{
    char why[sizeof c->reason];
    const char *advice = cli_switched_off(why, sizeof why);

    return advice != NULL && verdict(c, advice, "%s", why);
}

static bool links_no_mpi(const struct check *c)
{
    return c->mpi == NOBODY && c->family == FAMILY_NONE && c->caller == NOBODY;
}

/* A script of a shell, python3 without a script, and programs without MPI, such as wrappers, run
 * programs of other names. */
static bool is_left_out(struct check *c)
{
    char why[sizeof c->reason];
    const bool others = c->script.python ? !c->script.source : c->script.is_one || links_no_mpi(c);
    const char *advice =
        c->library || others ? NULL : cli_left_out(base_name(c->asked), why, sizeof why);

    return advice != NULL && verdict(c, advice, "%s", why);
}

static bool loads_mpi_at_run_time(struct check *c)
{
    static const char from[] = "from Open MPI 4 or 5, or from the MPICH ABI family";
    const bool torch = c->imports.torch && !c->imports.mpi4py;
    char advice[PATH_MAX + 128];

    if (!c->script.python || c->caller != NOBODY)
        return false;
    c->seen = true;
    snprintf(advice, sizeof advice, "mpirun -n 8 sparseshim run %s%s%s",
             c->script.bare ? "python3 " : "", c->asked, c->script.source ? "" : " SCRIPT");
    if (c->imports.horovod && !c->imports.mpi4py)
        return verdict(c, advice,
                       "if its horovod is built for MPI (see sparseshim(7), Horovod), %s", from);
    if (torch && !cli_redirects_torch())
        return verdict(c, "set SPARSESHIM_TORCH=on", "if it calls MPI itself, under TORCH=off");
    /* The python3 of pyenv is a script. */
    if (!c->imports.mpi4py && (!c->script.bare || script_names_python(c->path)) &&
        !imports_has_mpi4py(c->path))
        snprintf(advice, sizeof advice, "install mpi4py");
    if (torch)
        return verdict(c, advice, "torch.distributed runs over mpi4py (sparseshim(7)), %s", from);
    return verdict(c, advice, "if MPI comes in at run time (mpi4py), %s", from);
}

static bool uses_no_mpi(struct check *c)
{
    if (!links_no_mpi(c))
        return false;
    if (c->script.is_one)
        return verdict(c, "check the programs that the script starts: they inherit the preload",
                       "%s uses no MPI itself", c->path);
    return verdict(c,
                   "if it starts other programs (mpirun, srun, a wrapper), check those: they "
                   "inherit the preload",
                   "neither %s nor its libraries use MPI", c->path);
}

static bool has_other_mpi(struct check *c)
{
    if (c->family != FAMILY_OLD_OPEN_MPI && c->family != FAMILY_OTHER)
        return false;
    return verdict(
        c, "build it against MPICH or a relative, Open MPI 4 or 5, or the standard ABI of MPI 5",
        "its MPI library %s is %s: calls pass through untouched",
        c->mpi != NOBODY ? object_name(c, c->mpi) : "", family_text(c->family));
}

static bool never_reduces(struct check *c)
{
    if (c->caller != NOBODY)
        return false;
    int direct = first_caller(c, past_the_library, LENGTH(past_the_library));
    if (direct != NOBODY)
        return verdict(c, "call MPI_Allreduce, without the P",
                       "%s calls PMPI_Allreduce, which no preload takes over",
                       object_name(c, direct));
    int other = first_caller(c, not_taken_over, LENGTH(not_taken_over));
    if (other != NOBODY)
        return verdict(
            c, "use MPI_Allreduce or MPI_Iallreduce",
            "of the collectives that reduce %s calls only %s, which passes through untouched",
            object_name(c, other), imports(c, other, not_taken_over, LENGTH(not_taken_over)));
    return verdict(c,
                   "nothing to gain, unless it loads a part that calls MPI_Allreduce at run time: "
                   "check that file",
                   "neither %s nor its libraries call MPI_Allreduce", c->path);
}

static bool binds_to_itself(struct check *c)
{
    const struct binary *binary = &c->deps.objects[c->caller].binary;
    if (!binary->symbolic || exported(c, c->caller, "MPI_Allreduce") != BINARY_DEFINED)
        return false;
    return verdict(c, "link that library without -Bsymbolic",
                   "%s binds MPI_Allreduce to its own definition (-Bsymbolic)",
                   object_name(c, c->caller));
}

static int preloaded_library(const struct check *c)
{
    for (int i = 1; i < (int)c->deps.count && c->deps.objects[i].preloaded; i++)
        if (cli_is_library(c->deps.objects[i].path))
            return i;
    return NOBODY;
}

static bool is_c(const char *name)
{
    return strncmp(name, "MPI_", 4) == 0 && islower((unsigned char)name[5]);
}

/* Returns the C function through which reductions[k] goes; names of Fortran follow it in the table.
 */
static const char *c_name(size_t k)
{
    const char *name = reductions[0];
    for (size_t i = 0; i < LENGTH(reductions) && i <= k; i++)
        if (is_c(reductions[i]) && (i == k || strcmp(strrchr(reductions[i], '_'), "_c") != 0))
            name = reductions[i];
    return name;
}

/* Returns true if a profiler is preloaded before the library. A profiler calls the PMPI names,
 * which the library does not serve; behind the library it sees the calls that the library hands on.
 * Open MPI's functions of Fortran call no C name that a profiler could take. */
static bool is_shadowed(struct check *c)
{
    int ours = preloaded_library(c);
    for (size_t k = 0; ours != NOBODY && k < LENGTH(reductions); k++) {
        const char *name = c_name(k);
        if (exported(c, c->caller, reductions[k]) != BINARY_IMPORTED ||
            (c->family == FAMILY_OPEN_MPI && !is_c(reductions[k])))
            continue;
        for (int i = 1; i < ours; i++) {
            if (exported(c, i, name) != BINARY_DEFINED)
                continue;
            char advice[sizeof c->advice];
            char *order = cli_preload(c->deps.objects[ours].name, getenv("LD_PRELOAD"));
            snprintf(
                advice, sizeof advice,
                "put libsparseshim.so first, LD_PRELOAD=%s (%s then sees the calls that pass), "
                "or start the program by `sparseshim run`, which does so",
                order != NULL ? order : "...", object_name(c, i));
            free(order);
            return verdict(c, advice, "%s is preloaded before libsparseshim.so and takes %s",
                           object_name(c, i), name);
        }
    }
    return false;
}

/* A profiler's wrapper of a Fortran name that goes on by the PMPI one: the C function that the
 * library takes over is never called, in whatever order they are loaded. Under Open MPI calls are
 * taken over behind both names. */
static bool is_wrapped_for_fortran(struct check *c)
{
    for (size_t k = 0; c->family != FAMILY_OPEN_MPI && k < LENGTH(reductions); k++) {
        if (is_c(reductions[k]) || exported(c, c->caller, reductions[k]) != BINARY_IMPORTED)
            continue;
        for (int i = 1; i < (int)c->deps.count && i != c->mpi; i++)
            if (!part_of_mpi(c, i) && exported(c, i, reductions[k]) == BINARY_DEFINED &&
                exported(c, i, c_name(k)) != BINARY_IMPORTED)
                return verdict(c, "leave that profiler out, or use one that calls the C function",
                               "%s takes %s of Fortran and does not call %s", object_name(c, i),
                               reductions[k], c_name(k));
    }
    return false;
}

/* The runtime of AddressSanitizer ends a program in which another library is loaded before it. */
static bool has_runtime_that_must_be_first(struct check *c)
{
    for (int i = 1; i < (int)c->deps.count; i++) {
        const struct deps_object *object = &c->deps.objects[i];
        char advice[PATH_MAX + 64];

        if (!cli_must_be_first(object->path) || (i == 1 && object->preloaded))
            continue;
        snprintf(advice, sizeof advice,
                 "preload %s first: LD_PRELOAD=%s sparseshim run %s (run keeps it there)",
                 object->name, object->path, c->asked);
        return verdict(c, advice, "%s uses AddressSanitizer, whose runtime must be loaded first",
                       c->path);
    }
    return false;
}

static void name_mpirun(const struct check *c, char command[PATH_MAX])
{
    cli_mpirun_of(c->mpi != NOBODY ? c->deps.objects[c->mpi].path : "",
                  c->family == FAMILY_OPEN_MPI ? "mpirun.openmpi" : "mpirun.mpich", command);
}

/* No first exchange is ever made, whatever thread level the program asks for. */
static bool only_posts(struct check *c)
{
    if (c->library || cli_asks_for_nonblocking())
        return false;
    for (size_t k = 0; k < LENGTH(reductions); k++)
        if (strncasecmp(reductions[k], "MPI_I", 5) != 0 &&
            first_caller(c, &reductions[k], 1) != NOBODY)
            return false;
    char advice[2 * PATH_MAX + 128], mpirun[PATH_MAX];
    name_mpirun(c, mpirun);
    snprintf(advice, sizeof advice,
             "%s -n 8 sparseshim run --progress=watchdog %s, which raises the program to "
             "MPI_THREAD_MULTIPLE",
             mpirun, c->asked);
    return verdict(c, advice,
                   "%s calls only %s: nonblocking calls are taken over at MPI_THREAD_MULTIPLE and "
                   "behind an eligible blocking call, or with PROGRESS=watchdog",
                   object_name(c, c->caller),
                   imports(c, c->caller, reductions, LENGTH(reductions)));
}

static bool is_seen(struct check *c)
{
    char advice[2 * PATH_MAX + 64], mpirun[PATH_MAX];
    name_mpirun(c, mpirun);
    snprintf(advice, sizeof advice, "%s -n 8 sparseshim run %s", mpirun, c->asked);
    if (c->library)
        snprintf(advice, sizeof advice, "run the program that loads it under `sparseshim run`");
    c->seen = true;
    return verdict(c, advice, "%s calls %s, which the preload takes over",
                   object_name(c, c->caller),
                   imports(c, c->caller, reductions, LENGTH(reductions)));
}

typedef bool rule(struct check *c);
static rule *const rules[] = {
    is_no_program,
    is_for_another_machine,
    is_static,
    is_for_musl,
    is_privileged,
    lacks_libraries,
    defines_reduction_itself,
    is_switched_off,
    is_left_out,
    loads_mpi_at_run_time,
    uses_no_mpi,
    has_other_mpi,
    never_reduces,
    binds_to_itself,
    is_shadowed,
    is_wrapped_for_fortran,
    has_runtime_that_must_be_first,
    only_posts,
    is_seen,
};

static void print_definitions(const struct check *c)
{
    bool any = false;
    printf("MPI_Allreduce:");
    for (int i = 0; i < (int)c->deps.count; i++) {
        if (exported(c, i, "MPI_Allreduce") != BINARY_DEFINED &&
            !(i == 0 && inside_program(c, "MPI_Allreduce")))
            continue;
        printf("%s %s%s", any ? ", then" : " defined by", object_name(c, i),
               i == c->mpi                    ? ""
               : c->deps.objects[i].preloaded ? " (preloaded)"
                                              : " (a profiler or wrapper)");
        any = true;
    }
    printf("%s; a preload comes before all but the program\n", any ? "" : " defined by nobody");
}

static void print_callers(const struct check *c)
{
    for (int i = 0; i < (int)c->deps.count; i++) {
        const char *name = imports(c, i, reductions, LENGTH(reductions));
        if (name != NULL && !part_of_mpi(c, i))
            printf("called:        %s by %s\n", name, object_name(c, i));
    }
}

static void print_nonblocking(const struct check *c)
{
    int caller = first_caller(c, nonblocking, LENGTH(nonblocking));

    if (caller != NOBODY)
        printf("nonblocking:   %s is taken over where the program runs at MPI_THREAD_MULTIPLE on "
               "all ranks and an eligible blocking call came before; SPARSESHIM_PROGRESS=watchdog "
               "or thread raises every program to that level\n",
               imports(c, caller, nonblocking, LENGTH(nonblocking)));
}

static void print_facts(const struct check *c)
{
    const struct binary *program = &c->deps.objects[0].binary;
    printf("program:       %s, %s, %s\n", c->path, binary_machine_name(program->machine),
           c->library                     ? "a shared library"
           : program->interpreter != NULL ? "dynamically linked"
                                          : "statically linked");
    if (!c->library && program->interpreter == NULL)
        return;
    printf("libraries:     %zu found, %zu missing\n", c->deps.count - 1, c->deps.n_missing);
    for (size_t i = 0; i < c->deps.n_missing; i++)
        printf("missing:       %s\n", c->deps.missing[i]);
    printf("MPI:           %s%s%s\n", c->mpi == NOBODY ? "" : c->deps.objects[c->mpi].path,
           c->mpi == NOBODY ? "" : ", ",
           c->mpi == NOBODY && c->family == FAMILY_NONE ? "none linked" : family_text(c->family));
    if (c->mpi != NOBODY)
        print_definitions(c);
    print_callers(c);
    if (c->script.source)
        imports_print(&c->imports);
    print_nonblocking(c);
}

static int judge(struct check *c)
{
    if (c->status == BINARY_OK) {
        const struct binary *program = &c->deps.objects[0].binary;
        c->library = program->type == ET_DYN && program->interpreter == NULL && !program->pie;
        deps_resolve(&c->deps);
        if (c->deps.out_of_memory) {
            fprintf(stderr, "sparseshim check: out of memory\n");
            return CLI_USAGE;
        }
        find_mpi(c);
        c->caller = first_caller(c, reductions, LENGTH(reductions));
        print_facts(c);
    }
    size_t r = 0;
    while (!rules[r](c))
        r++;
    printf("verdict: calls would %s %s\n", c->seen ? "be seen:" : "not be seen because", c->reason);
    printf("what to do: %s\n", c->advice);
    return c->seen ? CLI_OK : CLI_NO;
}

int cli_check(int argc, char **argv)
{
    if (argc != 2 || argv[1][0] == '-')
        return cli_usage_error("check", "one program is needed; usage: sparseshim check PROGRAM");
    struct check *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fprintf(stderr, "sparseshim check: out of memory\n");
        return CLI_USAGE;
    }
    int status = CLI_USAGE;
    c->asked = argv[1];
    char file[PATH_MAX];
    bool found = script_locate(argv[1], c->path);
    memcpy(file, c->path, sizeof file);
    if (!found || !script_follow(c->path, &c->script)) {
        fprintf(stderr, "sparseshim check: %s cannot be read: %s\n",
                c->path[0] != '\0' ? c->path : argv[1], strerror(errno));
        goto done;
    }
    if (c->script.source)
        c->imports = imports_of(file);
    c->status = deps_open(&c->deps, c->path);
    if (c->status == BINARY_UNREADABLE)
        fprintf(stderr, "sparseshim check: %s cannot be read: %s\n", c->path, strerror(errno));
    else
        status = judge(c);
    deps_free(&c->deps);
done:
    free(c);
    return status;
}
