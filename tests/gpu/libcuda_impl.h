/* The inside of the driver for tests (tests/gpu/libcuda.cpp): its state and how its functions
 * begin. */
#ifndef TESTS_GPU_LIBCUDA_IMPL_H
#define TESTS_GPU_LIBCUDA_IMPL_H

#include "gpu/queue/driver.h"
#include "tests/gpu/emulate.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

static const size_t ARENA = 1ull << 38, GRAIN = 2u << 20;
enum { DEVICES_MOST = 2, CONTEXTS_MOST = 64, VERSION = 13000, THREADS_MOST = 1024, STICKY = 700 };
static const size_t MEMORY = 1ull << 34;

/* A device has a primary context; a reset puts another in its place. What is given others that have
 * been destroyed, which only a program's own can be, reads memory that is gone. */
struct CUctx_st {
    int device;
    bool alive, destroyed;
    unsigned long long id;
    CUresult error;
};
struct CUevent_st {
    CUcontext context;
    unsigned long long of; /* the id of that */
    bool done;
    unsigned long long turn, passed; /* recorded so often; the last that has come by */
};
struct operation {
    std::function<void()> run;
    CUevent wait;
    unsigned long long turn;
    CUcontext context;                       /* whose it is, as the legacy stream is one for all */
    const std::atomic<int> *until = nullptr; /* it ends once that is not 0 */
};
struct CUstream_st {
    CUcontext context;
    unsigned long long of;
    bool blocking, capturing;
    std::deque<operation> operations;
};
struct CUfunc_st {
    const emulated_kernel *kernel;
    CUcontext context;
};
struct CUmod_st {
    CUcontext context;
    std::deque<CUfunc_st> functions;
};
struct allocation {
    size_t size;
    CUcontext context;
    bool pool;
    unsigned long long id;
};
struct pinning {
    size_t size;
    CUcontext context;
    unsigned long long id;
};
typedef void launcher(void (*)(void **), void **, unsigned, unsigned, unsigned, uint64_t,
                      void *(*)(const void *));

/* Of kernels that are watched (tests/gpu/hazards.cpp); else nobody. */
struct watcher_of_memory {
    void (*arena)(const char *begin, size_t size);
    void (*allocated)(const char *p, size_t size, bool written);
    void (*freed)(const char *p);
    void (*written)(const char *p, size_t size);
};

struct driver {
    std::recursive_mutex lock;
    bool ready;
    char *device_base, *host_base; /* ARENA bytes each */
    size_t used, taken[DEVICES_MOST], limit;
    std::map<size_t, allocation> live;
    std::map<char *, pinning> pinned;
    CUctx_st context[DEVICES_MOST];
    std::set<CUstream> streams;
    CUstream_st legacy;
    unsigned long long seed, ids, allocations;
    void *kernels;
    launcher *launch;
    watcher_of_memory watcher;
    std::map<std::string, unsigned> calls, before; /* before the plan of a fault */
    std::string plan;
    int devices;
    unsigned long long crossed[2]; /* bytes to the host and from it */
    std::string order;             /* of long copies, as they were asked for */
    size_t pinned_bytes, pinned_most;
};

/* Contexts of a thread, the current one last. */
struct contexts {
    CUcontext of[CONTEXTS_MOST];
    size_t size;
    bool empty() const
    {
        return size == 0;
    }
    CUcontext &back()
    {
        return of[size - 1];
    }
    void pop_back()
    {
        size--;
    }
    void push_back(CUcontext context)
    {
        if (size == CONTEXTS_MOST)
            abort();
        of[size++] = context;
    }
};

extern driver &the;
inline thread_local contexts stack;
inline thread_local CUstreamCaptureMode capture_mode; /* 0: global */
inline thread_local CUcontext running;                /* whose kernel or copy it is */

[[noreturn]] void die(const char *what, const void *p);

/* Nobody holds a lock of ours meanwhile, where those are counted (tests/preload/locks.c). Not said
 * of device memory that is made: the first call of a size makes it where it starts. */
void may_wait(const char *function);
/* As may_wait; tells the test that watches (test_cuda_watch). */
void takes_long(const char *function);

/* Draws a number below n. */
unsigned draw(unsigned n);

CUresult planned_fault(const char *name);

/* Begins every function; CONTEXT those that need one. */
#define ENTER                                                                                      \
    std::lock_guard<std::recursive_mutex> guard(the.lock);                                         \
    if (!the.ready)                                                                                \
        return CUDA_ERROR_NOT_INITIALIZED;                                                         \
    if (CUresult fault = planned_fault(__func__))                                                  \
    return fault
#define CONTEXT                                                                                    \
    ENTER;                                                                                         \
    if (stack.empty())                                                                             \
        return CUDA_ERROR_INVALID_CONTEXT;                                                         \
    CUcontext context = stack.back();                                                              \
    if (!context->alive)                                                                           \
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;                                                    \
    if (context->error != CUDA_SUCCESS)                                                            \
    return context->error

/* ---- tests/gpu/libcuda_memory.cpp ---- */

/* Finds the allocation of device or managed memory that an address lies in, and the bytes left. */
const allocation *find(const void *p, size_t *left);
/* Finds where a kernel or a copy of a context has `size` bytes at p. */
void *place(const void *p, size_t size);
/* As place: of nothing at all a kernel may be given the end of what lies before. */
void *place_argument(const void *p);

/* ---- tests/gpu/libcuda_streams.cpp ---- */

/* Is what a capture in global mode forbids. */
bool forbidden(void);
/* Runs the next work of some stream that can run. Returns false if there is none. */
bool run_any(void);
void run_all(void);
/* Runs work until the stream has none. */
void drain(CUstream s);
/* Returns the stream for work. The legacy stream comes after what blocking streams hold, and before
 * what they get. */
CUstream begin_work(CUstream s);
/* Appends work to a stream. */
CUresult add(CUstream s, std::function<void()> run, CUevent wait = nullptr,
             unsigned long long turn = 0);

#endif
