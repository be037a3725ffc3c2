#include "shim/device/pieces.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/device/memory.h"

/* ---- where nothing can be copied ---- */

static _Atomic(char *) spare; /* a piece to be summed, and one for the result */

bool shim_pieces_reserve(void)
{
    char *none = NULL, *mine;

    if (atomic_load(&spare))
        return true;
    mine = mmap(NULL, 2 * (size_t)SS_PIECE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mine == MAP_FAILED)
        return false;
    if (!atomic_compare_exchange_strong(&spare, &none, mine))
        (void)munmap(mine, 2 * (size_t)SS_PIECE);
    return true;
}

static void fail(struct shim_pieces *p, const char *why)
{
    if (!p->failed)
        (void)snprintf(p->why, sizeof p->why, "%s", why);
    p->failed = true;
}

/* ---- images ---- */

static size_t length(const struct shim_pieces *p, size_t number)
{
    const size_t from = number * p->piece;

    return p->bytes - from < p->piece ? p->bytes - from : p->piece;
}

static size_t count(const struct shim_pieces *p)
{
    return (p->bytes + p->piece - 1) / p->piece;
}

static size_t depth(const struct shim_pieces *p)
{
    return p->send ? SHIM_PIECES_APART : SHIM_PIECES_IN_PLACE;
}

static struct gpu_image *image_out(const struct shim_pieces *p, size_t number)
{
    return p->out[number % depth(p)];
}

/* Where the piece is copied to from the device. */
static struct gpu_image *image_in(const struct shim_pieces *p, size_t number)
{
    return p->send ? p->in[number % depth(p)] : image_out(p, number);
}

static bool take(struct shim_pieces *p, struct gpu_image **image, const void *memory)
{
    *image = shim_staging()->take(memory, length(p, 0), shim.mem.limit / 2, false, p->why);
    p->failed = !*image;
    if (*image)
        shim_staging()->behind(*image);
    return *image != NULL;
}

static bool take_all(struct shim_pieces *p)
{
    const size_t all = count(p);

    for (size_t i = 0; i < depth(p) && i < all; i++)
        if (!take(p, &p->out[i], p->recv) || (p->send && !take(p, &p->in[i], p->send)))
            return false;
    return true;
}

static void fetch(struct shim_pieces *p, size_t number)
{
    const char *from = p->send ? p->send : p->recv;

    if (p->failed || number >= count(p))
        return;
    shim_staging()->aim(image_in(p, number), from + number * p->piece, length(p, number));
    shim_staging()->download(image_in(p, number));
}

void shim_pieces_take(struct shim_pieces *p, const void *send, void *recv, size_t bytes,
                      size_t piece)
{
    memset(p, 0, sizeof *p);
    p->send = send;
    p->recv = recv;
    p->bytes = bytes;
    p->piece = piece;
    (void)take_all(p);
}

void shim_pieces_open(struct shim_pieces *p)
{
    fetch(p, 0);
    fetch(p, 1);
}

void shim_pieces_give_up(struct shim_pieces *p, size_t bytes, size_t piece)
{
    memset(p, 0, sizeof *p);
    p->bytes = bytes;
    p->piece = piece;
    p->failed = true;
}

/* Whether what was queued for it last is under way. */
static bool is_busy(struct shim_pieces *p, struct gpu_image *image)
{
    const int status = image ? shim_staging()->poll(image) : 0;

    if (status < 0)
        fail(p, shim_staging()->error(image));
    p->moved = p->moved || status > 1;
    return status > 0;
}

bool shim_pieces_comes(struct shim_pieces *p, size_t number)
{
    return !p->failed && (is_busy(p, image_in(p, number)) || is_busy(p, image_out(p, number)));
}

/* Zeros, whatever stood there. */
const void *shim_pieces_in(const struct shim_pieces *p, size_t number)
{
    char *zeros = atomic_load(&spare);

    if (!p->failed)
        return p->send ? shim_staging()->host(image_in(p, number)) : NULL;
    memset(zeros, 0, p->send ? length(p, number) : 0);
    return p->send ? zeros : NULL;
}

void *shim_pieces_out(const struct shim_pieces *p, size_t number)
{
    if (!p->failed)
        return shim_staging()->host(image_out(p, number));
    return memset(atomic_load(&spare) + SS_PIECE, 0, length(p, number));
}

bool shim_pieces_holds(struct shim_pieces *p, size_t number)
{
    return !p->failed && number + 2 < count(p) && is_busy(p, image_in(p, number + 2));
}

void shim_pieces_take_back(struct shim_pieces *p, size_t number)
{
    if (p->failed)
        return;
    shim_staging()->aim(image_out(p, number), p->recv + number * p->piece, length(p, number));
    shim_staging()->upload(image_out(p, number), NULL, 0);
    fetch(p, number + 2);
}

bool shim_pieces_go(struct shim_pieces *p)
{
    bool busy = false;

    for (size_t i = 0; i < SHIM_PIECES_IN_PLACE; i++)
        busy = is_busy(p, p->out[i]) || busy;
    for (size_t i = 0; i < SHIM_PIECES_APART; i++)
        busy = is_busy(p, p->in[i]) || busy;
    return busy;
}

static void give(struct gpu_image *image)
{
    if (image)
        shim_staging()->give(image);
}

void shim_pieces_close(struct shim_pieces *p)
{
    for (size_t i = 0; i < SHIM_PIECES_IN_PLACE; i++)
        give(p->out[i]);
    for (size_t i = 0; i < SHIM_PIECES_APART; i++)
        give(p->in[i]);
}
