/* Freeing of work space. */
#include "core/stream/work.h"

size_t ss_work_kept(const struct ss_work *w)
{
    return w->idx[0].size + w->idx[1].size + w->idx[2].size + w->val[0].size + w->val[1].size +
           w->val[2].size + w->arena.size + w->own_error.size + w->marks.size + w->part_error.size;
}

void ss_work_drop(struct ss_work *w)
{
    for (int i = 0; i < 3; i++) {
        ss_buf_free(&w->idx[i]);
        ss_buf_free(&w->val[i]);
    }
    ss_buf_free(&w->arena);
    ss_buf_free(&w->own_error);
    ss_buf_free(&w->marks);
    ss_buf_free(&w->part_error);
}

/* All of it is buffers. */
enum { BUFFERS = sizeof(struct ss_work) / sizeof(struct ss_buf) };
_Static_assert(sizeof(struct ss_work) % sizeof(struct ss_buf) == 0, "nothing but buffers");

size_t ss_work_size(const struct ss_work *w)
{
    const struct ss_buf *buf = (const struct ss_buf *)w;
    size_t bytes = 0;

    for (size_t i = 0; i < BUFFERS; i++)
        bytes += buf[i].size;
    return bytes;
}

void ss_work_free(struct ss_work *w)
{
    struct ss_buf *buf = (struct ss_buf *)w;

    for (size_t i = 0; i < BUFFERS; i++)
        ss_buf_free(&buf[i]);
}
