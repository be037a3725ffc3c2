/* Counts the locks that the preloaded library holds in this thread, for the driver for tests
 * (tests/gpu/libcuda.cpp): that ends a program which asks it under one for what may take long. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int lock_function(pthread_mutex_t *lock);

static _Thread_local int held;
static lock_function *real_lock, *real_trylock, *real_unlock;

EXPORT int test_locks_held(void);

int test_locks_held(void)
{
    return held;
}

/* Locks are used before any constructor has run. */
static int call(lock_function **function, const char *name, pthread_mutex_t *lock)
{
    if (!*function)
        *(void **)function = dlsym(RTLD_NEXT, name);
    return (*function)(lock);
}

static bool is_ours(void *caller)
{
    static _Thread_local struct {
        void *caller;
        bool ours;
    } known[256];
    const size_t slot = (uintptr_t)caller / 4 % (sizeof known / sizeof known[0]);
    Dl_info where;

    if (known[slot].caller != caller) {
        known[slot].caller = caller;
        known[slot].ours = dladdr(caller, &where) && strstr(where.dli_fname, "/libsparseshim.so");
    }
    return known[slot].ours;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *lock)
{
    const int error = call(&real_lock, "pthread_mutex_lock", lock);

    held += error == 0 && is_ours(__builtin_return_address(0));
    return error;
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *lock)
{
    const int error = call(&real_trylock, "pthread_mutex_trylock", lock);

    held += error == 0 && is_ours(__builtin_return_address(0));
    return error;
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *lock)
{
    held -= is_ours(__builtin_return_address(0));
    return call(&real_unlock, "pthread_mutex_unlock", lock);
}
