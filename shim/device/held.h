/* Images that blocking calls hold. An error handler of the program may jump out of a call: nobody
 * gives them back then. A later call of the same thread finds that the frame that held them is gone
 * and does. */
#ifndef SHIM_DEVICE_HELD_H
#define SHIM_DEVICE_HELD_H

#include "shim/device/bounce.h"

struct shim_held;

/* Of a call whose frame on the stack is there: until shim_unhold. NULL: no memory. */
struct shim_held *shim_hold(const struct shim_bounce *b, const void *frame);
void shim_unhold(struct shim_held *held);

/* Gives back what is held by calls that were left: no other call of this thread had its frame at
 * that address, or deeper, and goes on. */
void shim_give_abandoned(const void *frame);

#endif
