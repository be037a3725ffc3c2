#include "shim/cli/try_table.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/report/emit.h"
#include "core/report/tensor_record.h"
#include "shim/cli/cli.h"
#include "shim/cli/learn_rules.h"
#include "shim/cli/report_forms.h"

enum { FEW = 50 };

/* Less is within what runs differ by anyway. */
static const double gain = 1.05;

/* ---- the table ---- */

enum { FORM, STEPS, SECONDS, AGAINST, INSIDE, SENT, FEWER, LOSSY, ENDED, COLUMNS };

static const struct ss_emit_column columns[COLUMNS] = {
    [FORM] = {NULL, "form", 1, SS_LEFT, "MODE of the run; off: every call is the MPI library's"},
    [STEPS] = {NULL, "steps", 1, 0, "calls of the tensor that carries most bytes"},
    [SECONDS] = {NULL, "a step", 1, 0, "time of a step"},
    [AGAINST] = {NULL, "as fast", 1, 0, "times as fast as off"},
    [INSIDE] = {NULL, "in calls", 1, 0, "share of the time in the calls that are looked at"},
    [SENT] = {NULL, "sent a step", 1, 0, "bytes sent by a rank in a step, mean"},
    [FEWER] = {NULL, "fewer", 1, 0, "bytes of dense calls over those sent"},
    [LOSSY] = {NULL, "lossy", 1, 0, "share of the bytes reduced that was lossy"},
    [ENDED] = {NULL, "ended by", 1, SS_LEFT, "who ended the run"},
};
const struct ss_emit_group trial_group = {NULL, "The table of sparseshim try", columns, COLUMNS};

struct rows {
    const struct trial_table *table;
    char ended[64];
};

/* Of a call; not known where less than a step was seen: a program without MPI_Init of which no call
 * is large enough leaves no more than what was noted before its first one. */
static struct trial_rates rates_of(const struct trial_table *table, enum trial_form form)
{
    static const struct trial_rates unknown = {NAN, NAN, NAN, NAN};
    const struct trial *t = &table->trial[form];

    return (double)trial_calls(t) >= table->calls_per_step ? trial_rates(t) : unknown;
}

static double seconds_of(const struct trial_table *table, enum trial_form form)
{
    return rates_of(table, form).seconds * table->calls_per_step;
}

static const char *ended_by(const struct trial *t, char *text, size_t size)
{
    static const char *const by[] = {[CLI_BY_ITSELF] = "itself",
                                     [CLI_ENOUGH] = "try, steps seen",
                                     [CLI_LATE] = "try, --limit reached",
                                     [CLI_INTERRUPTED] = "a signal"};

    if (!t->run)
        return "not run";
    if (t->ending != CLI_BY_ITSELF || t->status == 0)
        return by[t->ending];
    snprintf(text, size, "itself, status %d", t->status);
    return text;
}

static bool row(void *ctx, size_t i, struct ss_emit_value *v)
{
    struct rows *rows = ctx;
    const struct trial_table *table = rows->table;

    if (i >= TRIAL_FORMS)
        return false;
    const struct trial *t = &table->trial[i];
    const double steps = (double)trial_calls(t) / table->calls_per_step;
    struct trial_rates rates = rates_of(table, (enum trial_form)i);
    v[FORM] = ss_v_text(trial_name((enum trial_form)i));
    v[STEPS] = ss_v_count((uint64_t)steps);
    v[SECONDS] = ss_v_number(SS_V_SECONDS, rates.seconds * table->calls_per_step);
    v[AGAINST] = ss_v_number(SS_V_FACTOR, seconds_of(table, TRIAL_OFF) /
                                              (rates.seconds * table->calls_per_step));
    v[INSIDE] = ss_v_number(SS_V_SHARE, rates.inside / rates.seconds);
    v[SENT] = ss_v_number(SS_V_MEAN, rates.sent * table->calls_per_step);
    v[FEWER] = ss_v_number(SS_V_FACTOR, rates.dense / rates.sent);
    v[LOSSY] = ss_v_number(SS_V_SHARE, i == TRIAL_TOPK && t->run ? trial_lossy(t).share : 0);
    v[ENDED] = ss_v_text(ended_by(t, rows->ended, sizeof rows->ended));
    return true;
}

static void print_rows(const struct trial_table *table)
{
    static const struct ss_emit_table form = {.titles = {"Four runs of the job"},
                                              .columns = columns,
                                              .column_count = COLUMNS,
                                              .row = row};
    struct rows rows = {.table = table};
    struct ss_emit emit;

    ss_emit_begin(&emit, SS_EMIT_TEXT, cli_write_stdout, NULL);
    ss_emit_table(&emit, &form, &rows);
    ss_emit_end(&emit);
    printf("  as fast: times as fast as off; in calls: share of the time in the calls that are "
           "looked at\n  sent: by a rank, mean; fewer: bytes than dense; lossy: share of the bytes "
           "reduced\n  a step: %.4g call%s seen\n",
           table->calls_per_step, table->calls_per_step > 1 ? "s" : "");
}

/* ---- what was lossy ---- */

/* Tensors that differ in their ordinal alone are told together. */
static bool alike(const struct ss_tensor_record *a, const struct ss_tensor_record *b)
{
    return a->count == b->count && a->type == b->type && strcmp(a->comm, b->comm) == 0 &&
           strcmp(a->site, b->site) == 0 && (a->topk_calls > 0) == (b->topk_calls > 0);
}

static bool told(const struct ss_tensor_record *first, const struct ss_tensor_record *t)
{
    for (; first != t; first = first->next)
        if (alike(first, t))
            return true;
    return false;
}

static void tell_lossy(const struct ss_tensor_record *t)
{
    uint64_t calls = 0, lossy = 0, tensors = 0;
    double density = 0, held = 0;

    for (const struct ss_tensor_record *o = t; o; o = o->next)
        if (alike(o, t)) {
            tensors++;
            calls += o->calls;
            lossy += o->topk_calls;
            density += o->density_sum;
            held += o->input_norm > 0 ? o->residual_norm / o->input_norm : 0;
        }
    printf("  %" PRIu64 " %s called from %s%s%s%s", t->count, ss_type_name(t->type),
           t->site[0] ? t->site : "an unknown place", t->symbol[0] ? " (" : "", t->symbol,
           t->symbol[0] ? ")" : "");
    if (tensors > 1)
        printf(", %" PRIu64 " tensors", tensors);
    printf(": %" PRIu64 " of %" PRIu64 " calls, %.3g %% of the elements sent, held back %.3g times "
           "the norm of a call\n",
           lossy, calls, 100 * density / (double)lossy, held / (double)tensors);
}

/* Gradients as far as one can tell, of which no call was lossy. */
static void print_resting(const struct ss_tensor_record *first)
{
    bool head = false;

    for (const struct ss_tensor_record *r = first; r; r = r->next)
        if (cli_verdict(r) == CLI_GRADIENT && r->topk_calls == 0 && !told(first, r)) {
            if (!head)
                printf("Looks like a gradient, stayed exact in these steps, or since dense was as "
                       "fast:\n");
            head = true;
            printf("  %" PRIu64 " %s called from %s: %" PRIu64 " calls\n", r->count,
                   ss_type_name(r->type), r->site[0] ? r->site : "an unknown place", r->calls);
        }
}

static void print_lossy(const struct trial *t)
{
    const struct ss_tensor_record *first = t->seen.report[0].stats.tensors;
    struct trial_lossy lossy = trial_lossy(t);

    if (lossy.tensors == 0) {
        printf("\nNothing was lossy in topk.\n");
    } else {
        printf("\nLossy in topk, %zu of %zu tensors:\n", lossy.tensors, lossy.all);
        for (const struct ss_tensor_record *r = first; r; r = r->next)
            if (r->topk_calls > 0 && !told(first, r))
                tell_lossy(r);
    }
    print_resting(first);
}

static void print_exact(const struct cli_reports *reports, const struct cli_learned *learned)
{
    static const struct {
        enum cli_verdict verdict;
        const char *head;
    } rest[] = {{CLI_REFUSED, "Refused, exact:"},
                {CLI_UNTOUCHED, "Exact whatever the rules say:"},
                {CLI_UNDECIDED, "Not decided in this run, exact:"}};

    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (cli_learned_tell(NULL, "", reports, learned, rest[i].verdict, false) > 0) {
            printf("%s\n", rest[i].head);
            cli_learned_tell(stdout, "  ", reports, learned, rest[i].verdict, false);
        }
}

/* ---- lines to set ---- */

/* As the shell has it: between single quotes, which are put apart. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    putchar('\'');
}

static void print_export(const char *name, size_t length, const char *value)
{
    fputs("  export SPARSESHIM_", stdout);
    for (size_t i = 0; i < length; i++)
        putchar(name[i] == '-' ? '_' : toupper((unsigned char)name[i]));
    putchar('=');
    if (*value != '\0' && value[strcspn(value, " ;'\"\\$&|<>()*?[]#~`!{}\t\n")] == '\0')
        fputs(value, stdout);
    else
        print_quoted(value);
    putchar('\n');
}

static void print_options(const struct trial_table *table)
{
    for (size_t i = 0; i < table->option_count; i++) {
        const char *option = table->options[i];
        size_t length = strcspn(option, "=");
        if (!(length == 8 && strncasecmp(option, "register", 8) == 0))
            print_export(option, length, option + length + 1);
    }
}

static void print_mode(const struct trial_table *table, const char *mode)
{
    print_export("MODE", 4, mode);
    print_options(table);
}

static void print_register(const struct trial_table *table, const struct cli_learned *learned)
{
    char rules[CLI_LONGEST_RULES + 1] = "";
    size_t used = 0;

    if (table->rules != NULL) {
        print_export("REGISTER", 8, table->rules);
        return;
    }
    for (size_t i = 0; i < learned->rules; i++)
        if (used + strlen(learned->rule[i]) + 2 <= CLI_LONGEST_RULES)
            used += (size_t)snprintf(rules + used, sizeof rules - used, "%s%s",
                                     used > 0 ? "; " : "", learned->rule[i]);
    print_export("REGISTER", 8, used > 0 ? rules : "auto");
}

/* Times as fast as off, where that is worth a line. */
static double gain_of(const struct trial_table *table, enum trial_form form)
{
    double times = seconds_of(table, TRIAL_OFF) / seconds_of(table, form);
    const struct trial *t = &table->trial[form];

    return isfinite(times) && times >= gain && t->seen.reports > 0 &&
                   atomic_load(&t->seen.report[0].stats.sparse) > 0
               ? times
               : 0;
}

/* A buffer is known for what it is after some ten calls. */
static void print_few(const struct trial_table *table)
{
    const struct trial *topk = &table->trial[TRIAL_TOPK];

    if (trial_calls(topk) > 0 && (double)trial_calls(topk) < FEW * table->calls_per_step)
        printf("  In fewer than %d steps little can be seen of top-k.\n", FEW);
}

static void print_lines(const struct trial_table *table, const struct cli_learned *learned)
{
    bool lossy = trial_lossy(&table->trial[TRIAL_TOPK]).tensors > 0;
    double exact = gain_of(table, TRIAL_EXACT), topk = lossy ? gain_of(table, TRIAL_TOPK) : 0;

    putchar('\n');
    if (exact == 0 && topk == 0) {
        if (isfinite(seconds_of(table, TRIAL_OFF)))
            printf("Nothing to set: exact is not %.2f times as fast as off, nor topk%s.\n", gain,
                   lossy ? "" : ", which made nothing lossy: its time is that of exact");
        else
            printf("Nothing to set: what a step takes without the library was not seen.\n");
        print_few(table);
        return;
    }
    if (exact > 0) {
        printf("Lines to set for exact, %.3g times as fast; the sums are those without it:\n",
               exact);
        print_mode(table, "exact");
    }
    if (topk > 0) {
        printf("Lines to set for topk, %.3g times as fast; lossy as listed, so look at what the "
               "training learns:\n",
               topk);
        print_mode(table, "topk");
        print_register(table, learned);
    }
    printf("And sparseshim run in front of the program: mpirun -n %d sparseshim run PROGRAM\n",
           table->trial[topk > 0 ? TRIAL_TOPK : TRIAL_EXACT].seen.report[0].job.ranks);
}

/* ---- all ---- */

static uint64_t sparse_of(const struct trial *t)
{
    return t->seen.reports > 0 ? atomic_load(&t->seen.report[0].stats.sparse) : 0;
}

/* Why no call was made sparse, as the reports have it. */
static void print_why(const struct trial_table *table)
{
    const struct trial *t = &table->trial[TRIAL_EXACT];

    printf("\nNo call was made sparse.\n");
    for (size_t i = 0; t->seen.reports > 0 && i < t->seen.report[0].job.note_count; i++)
        printf("  %s\n", t->seen.report[0].job.notes[i]);
    if (t->seen.reports == 0)
        printf("  No rank wrote a report: was it an MPI program that calls MPI_Init, and do its "
               "hosts see the folder it worked in?\n");
    print_few(table);
}

bool trial_table_print(const struct trial_table *table)
{
    const struct trial *topk = &table->trial[TRIAL_TOPK];
    const struct cli_reports reports = {topk->seen.report, topk->seen.reports};
    struct cli_learned learned = {.rules = 0};
    bool served = sparse_of(topk) + sparse_of(&table->trial[TRIAL_EXACT]) > 0;

    print_rows(table);
    if (topk->seen.reports > 0 && cli_learn(&reports, &learned) == SS_OK) {
        print_lossy(topk);
        print_exact(&reports, &learned);
    }
    if (served)
        print_lines(table, &learned);
    else
        print_why(table);
    cli_learned_free(&learned);
    return served;
}
