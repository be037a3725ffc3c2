/* The features of a word for langid and scd: its character n-grams, hashed. */
#ifndef TESTS_APPS_LANGID_FEATURES_H
#define TESTS_APPS_LANGID_FEATURES_H

#include "tests/apps/langid_corpus.h"

enum {
    MAX_GRAM = 5,
    MAX_FEATURES = MAX_GRAM * (MAX_CHARS + 2),
    WORD_MARK = 1, /* stands for both ends of a word */
};

/* Writes the bucket of every n-gram, n = 1..MAX_GRAM, of the marked word; returns their number. */
static int features(const struct corpus *corpus, const struct sample *sample, size_t buckets,
                    uint32_t *bucket)
{
    uint16_t marked[MAX_CHARS + 2];
    int chars = sample->chars + 2, found = 0;

    marked[0] = marked[chars - 1] = WORD_MARK;
    memcpy(marked + 1, corpus->text + sample->begin, sample->chars * sizeof *marked);
    for (int i = 0; i < chars; i++) {
        uint64_t hash = 0;

        for (int j = i; j < chars && j < i + MAX_GRAM; j++) {
            hash = mix((hash + marked[j]) * 0x9e3779b97f4a7c15u + 1);
            bucket[found++] = (uint32_t)((hash >> 32) * buckets >> 32);
        }
    }
    return found;
}

#endif
