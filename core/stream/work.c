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

void ss_work_free(struct ss_work *w)
{
    struct ss_buf *bufs[] = {&w->own_idx,       &w->own_val,      &w->inbox,       &w->scratch,
                             &w->pieces,        &w->values,       &w->staging,     &w->agree,
                             &w->keep,          &w->sketch,       &w->sample.runs, &w->levels.runs,
                             &w->sample.values, &w->levels.values};

    ss_work_drop(w);
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++)
        ss_buf_free(bufs[i]);
}
