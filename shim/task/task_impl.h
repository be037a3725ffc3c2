/* Shared by the files of shim/task. */
#ifndef SHIM_TASK_TASK_IMPL_H
#define SHIM_TASK_TASK_IMPL_H

#include "shim/task/task.h"

static inline void shim_task_set_stage(struct shim_task *task, enum shim_stage stage)
{
    atomic_store_explicit(&task->stage, (int)stage, memory_order_release);
}

static inline enum shim_stage shim_task_stage(const struct shim_task *task)
{
    return (enum shim_stage)atomic_load_explicit(&task->stage, memory_order_acquire);
}

/* Lets nonblocking calls go to the MPI library from this call on, unless they do so already. */
static inline void shim_queue_native_from(struct shim_queue *queue, uint64_t call)
{
    if (queue->native_from == 0 || call < queue->native_from)
        queue->native_from = call;
}

/* ---- shim/task/task.c ---- */

/* Ends a window, under the lock. status: result of core's call. seconds: time in the MPI library
 * after SS_NATIVE, < 0 if its call failed. */
void shim_task_end_window(struct shim_task *task, int status, double seconds);

/* ---- shim/task/buffers.c: where the buffers of a call are ---- */

/* The window in hand, as the MPI library gets it: on the host. The input is NULL where the call is
 * in place. */
const void *shim_task_input(const struct shim_task *task);
void *shim_task_output(const struct shim_task *task);

/* The receive buffer of the window by an address of the program's own, where that is not
 * shim_task_output; else NULL. */
const void *shim_task_known_as(const struct shim_task *task);

/* Returns true if the call is served in a backend that the MPI library cannot see. */
bool shim_task_is_away(const struct shim_task *task);

/* Returns true while the copies of the buffers are under way. A copy that fails ends the call. */
bool shim_task_comes_in(struct shim_task *task);
/* The result of a call that has ended is not in the program's buffer yet. */
bool shim_task_goes_out(struct shim_task *task);

/* Before a call has started whose buffers cannot be read: its vote fails the communicator on all
 * ranks. */
void shim_task_breaks(struct shim_task *task);

/* ---- shim/task/native.c: the part of the MPI library ---- */

/* Before the MPI library's call: frees idle work space if the call is native because the system
 * refused this rank memory. */
void shim_native_make_room(const struct shim_task *task);
/* The window in hand, on the private communicator and polled. in NULL: what it reduces stands where
 * the result is to be. */
void shim_native_start(struct shim_task *task, const void *in);
/* No thread of ours moves calls: what is not posted by one of the program's may wait long. */
bool shim_native_is_alone(void);
/* SHIM_TASK_COPIES: goes on if the copies are filled. Returns whether it did. */
bool shim_native_copies(struct shim_task *task);
/* Starts the next of the barriers that come first if every rank has a TIMEOUT (like
 * shim_comm_assemble), then the window: a missing rank is noticed in a barrier, not in a collective
 * of unknown duration. */
void shim_native_next(struct shim_task *task);
/* Returns true if something moved. Sets *over if the call is done or given up by TIMEOUT, and
 * *spent to its seconds, or below 0 if it failed. */
bool shim_native_step(struct shim_task *task, bool *over, double *spent);
/* Returns true if there is nothing more to post. */
bool shim_native_is_posted(const struct shim_task *task);

/* The call as it came, in the MPI library: on the application's communicator where that is not
 * served, else on the private one. The second: once its copies are there. */
void shim_native_whole(struct shim_task *task);
void shim_native_whole_later(struct shim_task *task);
/* Passes the remainder of a call to the MPI library after the finished windows. */
void shim_native_remainder(struct shim_task *task);

/* ---- shim/task/user_operator.c: reductions with an operator of the program's ---- */

/* Returns true if the calls before it no longer need a thread of the shim. */
bool shim_user_is_next(const struct shim_task *task);
/* Posts it, unless another thread of the shim is inside MPI: that thread then posts it. Returns
 * false if it was not posted. */
bool shim_user_try_post(struct shim_task *task);
/* Posts it in any case. */
void shim_user_post(struct shim_task *task);
/* Lets threads of the shim in again. */
void shim_user_end(struct shim_task *task);

/* ---- shim/task/native_pieces.c: the window piece by piece ---- */

/* Makes room for pieces of buffers in device memory. Returns false if there is no memory. */
bool shim_task_pieces_begin(struct shim_task *task);
/* As shim_native_step; it has failed where the task has an error afterwards. */
bool shim_task_pieces_step(struct shim_task *task, bool *over);

/* ---- by the caller of a blocking call, in shim/task/serve.c ---- */

/* Fills its copies, if it has any. Returns false if that fails. */
bool shim_native_fill(struct shim_task *task);
/* Makes the window in hand as the application called it. Returns the MPI code. */
int shim_native_window(const struct shim_task *task);

#endif
