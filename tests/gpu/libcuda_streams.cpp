/* Work in streams of the driver for tests, and events. */
#include "tests/gpu/libcuda_impl.h"

/* ---- work ---- */

bool forbidden(void)
{
    bool capturing = false;
    for (CUstream s : the.streams)
        capturing |= s->capturing;
    return capturing && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

static bool run_one(CUstream s)
{
    if (s->operations.empty())
        return false;
    operation &o = s->operations.front();
    if ((o.wait && o.wait->passed < o.turn) || (o.until && *o.until == 0))
        return false;
    auto run = std::move(o.run);
    running = o.context;
    s->operations.pop_front();
    if (run)
        run();
    running = nullptr;
    return true;
}

bool run_any(void)
{
    std::vector<CUstream> all(the.streams.begin(), the.streams.end());
    all.push_back(&the.legacy);
    for (size_t i = all.size(); i > 1; i--)
        std::swap(all[i - 1], all[draw((unsigned)i)]);
    for (CUstream s : all)
        if (run_one(s))
            return true;
    return false;
}

void run_all(void)
{
    while (run_any())
        ;
}

void drain(CUstream s)
{
    while (!s->operations.empty())
        if (!run_any())
            die("a stream waits for an event that nobody records", s);
}

/* What was made in a context is gone with it: a driver reads memory that is. */
template <class T> static void still_known(T *handle)
{
    if (handle->context->destroyed || handle->context->id != handle->of)
        die("a stream or an event of a context that is gone", handle);
}

CUstream begin_work(CUstream s)
{
    if (s == nullptr || s == CU_STREAM_LEGACY) {
        for (CUstream x : the.streams)
            if (x->blocking)
                drain(x);
        the.legacy.context = stack.empty() ? nullptr : stack.back();
        return &the.legacy;
    }
    if (!the.streams.count(s))
        die("a stream that is not there", s);
    still_known(s);
    if (s->blocking)
        drain(&the.legacy);
    return s;
}

/* The legacy stream would become part of a capture of a stream that waits for it. */
CUresult add(CUstream s, std::function<void()> run, CUevent wait, unsigned long long turn)
{
    bool legacy = s == nullptr || s == CU_STREAM_LEGACY;
    for (CUstream x : the.streams)
        if (legacy && x->capturing && x->blocking)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    CUstream in = begin_work(s);
    in->operations.push_back({std::move(run), wait, turn, in->context});
    return CUDA_SUCCESS;
}

/* A kernel in the legacy stream that ends once the host has set the flag. */
EXPORT void test_cuda_hold(const std::atomic<int> *until)
{
    std::lock_guard<std::recursive_mutex> guard(the.lock);
    begin_work(nullptr)->operations.push_back({nullptr, nullptr, 0, the.legacy.context, until});
}

/* ---- streams ---- */

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
    CONTEXT;
    *s = new CUstream_st{context, context->id, !(flags & CU_STREAM_NON_BLOCKING), false, {}};
    the.streams.insert(*s);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream s)
{
    may_wait(__func__);
    CONTEXT;
    drain(begin_work(s));
    the.streams.erase(s);
    delete s;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream s)
{
    may_wait(__func__);
    CONTEXT;
    drain(begin_work(s));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode)
{
    CONTEXT;
    s->capturing = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream s, void **graph)
{
    CONTEXT;
    s->capturing = false;
    *graph = nullptr;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
    CONTEXT;
    *status = 0;
    if (s != nullptr && s != CU_STREAM_LEGACY) {
        *status = s->capturing;
        return CUDA_SUCCESS;
    }
    for (CUstream x : the.streams)
        if (x->capturing && x->blocking)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER;
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
}

/* ---- events ---- */

EXPORT CUresult cuEventCreate(CUevent *e, unsigned)
{
    CONTEXT;
    *e = new CUevent_st{context, context->id, true, 0, 0};
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent e)
{
    CONTEXT;
    still_known(e);
    while (!e->done && run_any())
        ;
    delete e;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s)
{
    CONTEXT;
    still_known(e);
    if (e->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    unsigned long long turn = ++e->turn;
    e->done = false;
    return add(s, [=] {
        e->passed = turn > e->passed ? turn : e->passed;
        e->done = e->passed == e->turn;
    });
}

EXPORT CUresult cuEventQuery(CUevent e)
{
    CONTEXT;
    still_known(e);
    if (!e->done)
        run_any();
    return e->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* It keeps no time. */
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent, CUevent)
{
    CONTEXT;
    *ms = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent e)
{
    may_wait(__func__);
    CONTEXT;
    still_known(e);
    while (!e->done)
        if (!run_any())
            die("an event that cannot come", e);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned)
{
    CONTEXT;
    still_known(e);
    return e->done ? CUDA_SUCCESS : add(s, nullptr, e, e->turn);
}
