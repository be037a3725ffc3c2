/* Writes events as lines of JSON. Formats digits itself: printf takes ten times as long, and uses
 * the decimal point of the program's locale. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/job/program.h"
#include "shim/job/trace_impl.h"
#include "shim/mpi/log.h"

static void put(struct trace_text *out, const char *text)
{
    size_t length = strlen(text), room = sizeof out->text - out->used;

    if (length > room)
        length = room;
    memcpy(out->text + out->used, text, length);
    out->used += length;
}

static void put_text(struct trace_text *out, const char *text)
{
    char one[3] = "";

    put(out, "\"");
    for (; *text; text++) {
        bool escaped = *text == '"' || *text == '\\';
        one[0] = escaped ? '\\' : *text >= ' ' && *text <= '~' ? *text : '?';
        one[1] = escaped ? *text : '\0';
        put(out, one);
    }
    put(out, "\"");
}

/* Writes a number with at least `least` digits. */
static void put_digits(struct trace_text *out, uint64_t number, unsigned least)
{
    char text[24], *at = text + sizeof text - 1;

    *at = '\0';
    for (; number > 0 || least > 0; number /= 10) {
        *--at = (char)('0' + number % 10);
        least -= least > 0;
    }
    put(out, at);
}

static void put_number(struct trace_text *out, const char *before, uint64_t number)
{
    put(out, before);
    put_digits(out, number, 1);
}

static void put_part(struct trace_text *out, const char *before, const char *text,
                     const char *behind)
{
    put(out, before);
    put(out, text);
    put(out, behind);
}

/* Writes seconds as microseconds with three decimals. */
static void put_micros(struct trace_text *out, double seconds)
{
    uint64_t nanos = (uint64_t)((seconds < 0 ? -seconds : seconds) * 1e9 + 0.5);

    put(out, seconds < 0 ? "-" : "");
    put_digits(out, nanos / 1000, 1);
    put(out, ".");
    put_digits(out, nanos % 1000, 3);
}

/* Writes the beginning of an event, up to its arguments. */
static void put_begin(struct trace_text *out, const char *phase, double at, unsigned lane,
                      const char *name)
{
    put_part(out, out->begun ? ",\n{\"ph\":\"" : "[\n{\"ph\":\"", phase, "\",\"ts\":");
    out->begun = true;
    put_micros(out, at);
    put_number(out, ",\"pid\":", (uint64_t)shim.process.rank);
    put_number(out, ",\"tid\":", lane);
    put_part(out, ",\"name\":\"", name, "\"");
}

static double real_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void put_labels(struct trace_text *out)
{
    char name[300] = "", job[256], program[NAME_MAX + 1];

    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = '\0';
    put_begin(out, "M", 0, 0, "process_labels");
    put(out, ",\"args\":{\"labels\":");
    put_text(out, name);
    put(out, ",\"program\":");
    shim_program_name(program, sizeof program);
    put_text(out, program);
    put(out, ",\"version\":\"" SPARSESHIM_VERSION "\",\"job\":");
    put_text(out, shim_expand(job, sizeof job, "%j") ? job : "");
    put_number(out, ",\"ranks\":", (uint64_t)shim.process.ranks);
    put(out, ",\"real_time_us\":");
    put_micros(out, real_time() - shim_now());
    put(out, "}}");
}

void shim_trace_put_head(struct trace_text *out)
{
    put_begin(out, "M", 0, 0, "process_name");
    put_number(out, ",\"args\":{\"name\":\"rank ", (uint64_t)shim.process.rank);
    put(out, "\"}}");
    put_begin(out, "M", 0, 0, "process_sort_index");
    put_number(out, ",\"args\":{\"sort_index\":", (uint64_t)shim.process.rank);
    put(out, "}}");
    put_labels(out);
    put_begin(out, "M", 0, TRACE_NOTES, "thread_name");
    put(out, ",\"args\":{\"name\":\"notes\"}}");
}

void shim_trace_put_lane(struct trace_text *out, unsigned lane)
{
    put_begin(out, "M", 0, lane, "thread_name");
    put(out, ",\"args\":{\"name\":\"calls");
    if (lane > 0)
        put_number(out, " beside, ", lane);
    put(out, "\"}}");
}

/* Writes the phase of a round or of a wait; for a wait also the rank that is waited for, if any. */
static void put_phase(struct trace_text *out, const struct trace_record *r)
{
    bool waits = strcmp(r->name, "round") != 0;

    put_part(out, ",\"args\":{\"phase\":\"", r->phase, "\"");
    if (r->number >= 0)
        put_number(out, waits ? ",\"for_rank\":" : ",\"round\":", (uint64_t)r->number);
    put(out, "}");
}

static void put_call(struct trace_text *out, const struct trace_record *r, const char *comm)
{
    put(out, ",\"args\":{\"communicator\":");
    put_text(out, comm);
    put_number(out, ",\"ranks\":", (uint64_t)r->ranks);
    put_number(out, ",\"call\":", r->call);
    put_number(out, ",\"count\":", r->count);
    put_part(out, ",\"type\":\"", r->type, "\"");
    put_part(out, ",\"algorithm\":\"", r->algorithm, "\"");
    put_number(out, ",\"bytes\":", r->bytes);
    if (r->inside > 0)
        put_number(out, ",\"bytes_inside\":", r->inside);
    if (r->density >= 0) {
        uint64_t millionths = (uint64_t)((double)r->density * 1e6 + 0.5);
        put_number(out, ",\"density\":", millionths / 1000000);
        put(out, ".");
        put_digits(out, millionths % 1000000, 6);
    }
    if (r->why)
        put_part(out, ",\"because\":\"", r->why, "\"");
    put(out, "}");
}

void shim_trace_put(struct trace_text *out, const struct trace_record *r, char (*comms)[TRACE_NAME])
{
    put_begin(out, r->begins ? "B" : "E", r->at, r->lane, r->name);
    if (r->phase)
        put_phase(out, r);
    else if (r->ends_call)
        put_call(out, r, comms[r->comm]);
    put(out, "}");
}

void shim_trace_put_clock(struct trace_text *out, const struct shim_clock_sample *sample)
{
    put_begin(out, "i", sample->at, TRACE_NOTES, "clock");
    put(out, ",\"s\":\"p\",\"args\":{\"offset_us\":");
    put_micros(out, sample->offset);
    put(out, ",\"uncertainty_us\":");
    put_micros(out, sample->uncertainty);
    put_number(out, ",\"job\":\"", atomic_load(&shim.process.job));
    put(out, "\"}}");
}

void shim_trace_put_dropped(struct trace_text *out, double at, const char *why, uint64_t count)
{
    put_begin(out, "i", at, TRACE_NOTES, "dropped");
    put(out, ",\"s\":\"p\",\"args\":{\"because\":");
    put_text(out, why);
    if (count > 0)
        put_number(out, ",\"events\":", count);
    put(out, "}}");
}

void shim_trace_put_end(struct trace_text *out)
{
    put(out, "\n]\n");
}
