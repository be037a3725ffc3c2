/* Events as lines of JSON. Numbers are written as integers and decimals of our own: the locale of
 * the program may have another point. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/job/trace.h"
#include "shim/mpi/log.h"

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text >= ' ' && *text <= '~' ? *text : '?', out);
    }
    fputc('"', out);
}

/* Seconds as microseconds with three digits behind the point. */
static void put_micros(FILE *out, double seconds)
{
    uint64_t nanos = (uint64_t)((seconds < 0 ? -seconds : seconds) * 1e9 + 0.5);

    fprintf(out, "%s%" PRIu64 ".%03u", seconds < 0 ? "-" : "", nanos / 1000,
            (unsigned)(nanos % 1000));
}

/* Up to the arguments, which follow. */
static void put_begin(FILE *out, char phase, double at, unsigned lane, const char *name)
{
    fprintf(out, ",\n{\"ph\":\"%c\",\"ts\":", phase);
    put_micros(out, at);
    fprintf(out, ",\"pid\":%d,\"tid\":%u,\"name\":\"%s\"", shim.rank, lane, name);
}

static double real_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void shim_trace_put_head(FILE *out)
{
    char name[300] = "", job[256];

    if (gethostname(name, sizeof name - 1) != 0)
        snprintf(name, sizeof name, "host");
    fprintf(out,
            "[\n{\"ph\":\"M\",\"ts\":0,\"pid\":%d,\"tid\":0,\"name\":\"process_name\","
            "\"args\":{\"name\":\"rank %d\"}}",
            shim.rank, shim.rank);
    put_begin(out, 'M', 0, 0, "process_sort_index");
    fprintf(out, ",\"args\":{\"sort_index\":%d}}", shim.rank);
    put_begin(out, 'M', 0, 0, "process_labels");
    fputs(",\"args\":{\"labels\":", out);
    put_text(out, name);
    fputs(",\"program\":", out);
    put_text(out, program_invocation_short_name);
    fputs(",\"version\":\"" SPARSESHIM_VERSION "\",\"job\":", out);
    put_text(out, shim_expand(job, sizeof job, "%j") ? job : "");
    fprintf(out, ",\"ranks\":%d,\"real_time_us\":", shim.ranks);
    put_micros(out, real_time() - shim_now());
    fputs("}}", out);
    put_begin(out, 'M', 0, TRACE_NOTES, "thread_name");
    fputs(",\"args\":{\"name\":\"notes\"}}", out);
}

void shim_trace_put_lane(FILE *out, unsigned lane)
{
    put_begin(out, 'M', 0, lane, "thread_name");
    if (lane == 0)
        fputs(",\"args\":{\"name\":\"calls\"}}", out);
    else
        fprintf(out, ",\"args\":{\"name\":\"calls beside, %u\"}}", lane);
}

/* A phase stands with a round, or with a wait and then with the rank waited for, if it is one. */
static void put_phase(FILE *out, const struct trace_record *r)
{
    bool waits = strcmp(r->name, "round") != 0;

    fprintf(out, ",\"args\":{\"phase\":\"%s\"", r->phase);
    if (r->number >= 0)
        fprintf(out, ",\"%s\":%d", waits ? "for_rank" : "round", r->number);
    fputs("}", out);
}

static void put_call(FILE *out, const struct trace_record *r, const char *comm)
{
    fputs(",\"args\":{\"communicator\":", out);
    put_text(out, comm);
    fprintf(out,
            ",\"ranks\":%d,\"call\":%u,\"count\":%" PRIu64
            ",\"type\":\"%s\",\"algorithm\":\"%s\",\"bytes\":%" PRIu64,
            r->ranks, (unsigned)r->call, r->count, r->type, r->algorithm, r->bytes);
    if (r->density >= 0) {
        unsigned millionths = (unsigned)((double)r->density * 1e6 + 0.5);
        fprintf(out, ",\"density\":%u.%06u", millionths / 1000000, millionths % 1000000);
    }
    if (r->why)
        fprintf(out, ",\"because\":\"%s\"", r->why);
    fputs("}", out);
}

void shim_trace_put(FILE *out, const struct trace_record *r, char (*comms)[TRACE_NAME])
{
    put_begin(out, r->begins ? 'B' : 'E', r->at, r->lane, r->name);
    if (r->phase)
        put_phase(out, r);
    else if (r->ends_call)
        put_call(out, r, comms[r->comm]);
    fputs("}", out);
}

void shim_trace_put_clock(FILE *out, const struct shim_clock_sample *sample)
{
    put_begin(out, 'i', sample->at, TRACE_NOTES, "clock");
    fputs(",\"s\":\"p\",\"args\":{\"offset_us\":", out);
    put_micros(out, sample->offset);
    fputs(",\"uncertainty_us\":", out);
    put_micros(out, sample->uncertainty);
    fputs("}}", out);
}

void shim_trace_put_dropped(FILE *out, double at, const char *why, uint64_t count)
{
    put_begin(out, 'i', at, TRACE_NOTES, "dropped");
    fputs(",\"s\":\"p\",\"args\":{\"because\":", out);
    put_text(out, why);
    if (count > 0)
        fprintf(out, ",\"events\":%" PRIu64, count);
    fputs("}}", out);
}
