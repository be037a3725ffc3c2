/* The words of langid and charlm: read from word lists, in lower case, in a random order that is
 * the same on every rank. */
#ifndef TESTS_APPS_LANGID_CORPUS_H
#define TESTS_APPS_LANGID_CORPUS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/apps/app.h"

#define ALL_LANGUAGES "american-english,ngerman,french,spanish,italian"

enum {
    MAX_LANGUAGES = 16,
    MAX_CHARS = 64, /* longer words are cut */
};

struct sample {
    uint32_t begin; /* into text */
    uint8_t chars, language;
};

struct corpus {
    uint16_t *text; /* code points, lower case */
    size_t text_used, text_room;
    struct sample *sample; /* training words first, then the held-out ones */
    size_t samples, sample_room, train;
    char *names; /* what the names of the languages lie in */
    const char *language[MAX_LANGUAGES];
    int languages;
};

static void *grow(void *memory, size_t members, size_t size)
{
    memory = realloc(memory, members * size);
    if (!memory)
        fail("no memory for %zu times %zu bytes", members, size);
    return memory;
}

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state);
}

/* ASCII and Latin-1 only: case would give the capitals of German nouns away. */
static unsigned lower(unsigned c)
{
    bool ascii = c >= 'A' && c <= 'Z';
    bool latin = c >= 0xc0 && c <= 0xde && c != 0xd7;

    return ascii || latin ? c + 0x20 : c;
}

/* Returns the next code point of the UTF-8 text at *s. A byte that is not UTF-8 is Latin-1. */
static unsigned next_char(const unsigned char **s)
{
    const unsigned char *p = *s;
    unsigned c = p[0];

    *s += 1;
    if (c >= 0xc2 && c <= 0xdf && (p[1] & 0xc0) == 0x80) {
        *s += 1;
        return (c & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if ((c & 0xf0) == 0xe0 && (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80) {
        *s += 2;
        return (c & 0x0f) << 12 | (unsigned)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    return c;
}

static void add_word(struct corpus *corpus, const char *line, int language)
{
    const unsigned char *s = (const unsigned char *)line;
    struct sample *sample;

    if (corpus->samples == corpus->sample_room) {
        corpus->sample_room = corpus->sample_room * 2 + 1024;
        corpus->sample = grow(corpus->sample, corpus->sample_room, sizeof *corpus->sample);
    }
    if (corpus->text_room - corpus->text_used < MAX_CHARS) {
        corpus->text_room = corpus->text_room * 2 + 65536;
        corpus->text = grow(corpus->text, corpus->text_room, sizeof *corpus->text);
    }
    sample = &corpus->sample[corpus->samples];
    *sample = (struct sample){.begin = (uint32_t)corpus->text_used, .language = (uint8_t)language};
    while (*s && *s != '\n' && *s != '\r' && sample->chars < MAX_CHARS) {
        corpus->text[corpus->text_used++] = (uint16_t)lower(next_char(&s));
        sample->chars++;
    }
    if (sample->chars > 0)
        corpus->samples++;
}

static void read_language(struct corpus *corpus, const char *dict, const char *name)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    FILE *file;

    if (corpus->languages == MAX_LANGUAGES)
        fail("--languages names more than %d lists", MAX_LANGUAGES);
    snprintf(path, sizeof path, "%s/%s", dict, name);
    file = fopen(path, "r");
    if (!file)
        fail("cannot open %s: %s; Debian's word lists are packages such as wngerman", path,
             strerror(errno));
    while (getline(&line, &room, file) > 0)
        add_word(corpus, line, corpus->languages);
    free(line);
    fclose(file);
    corpus->language[corpus->languages++] = name;
}

/* Puts the first words in an order that depends on state alone. */
static void shuffle(struct corpus *corpus, size_t words, uint64_t state)
{
    for (size_t i = words; i > 1; i--) {
        size_t j = (size_t)(draw(&state) % i);
        struct sample swapped = corpus->sample[i - 1];

        corpus->sample[i - 1] = corpus->sample[j];
        corpus->sample[j] = swapped;
    }
}

/* Reads the lists of dict that languages names, separated by commas. Takes most of the words, or
 * all if most is 0, and sets 1 in 20 of them apart. */
static void read_corpus(struct corpus *corpus, const char *dict, const char *languages, size_t most,
                        uint64_t seed)
{
    corpus->names = strcpy(grow(NULL, strlen(languages) + 1, 1), languages);
    for (char *name = strtok(corpus->names, ","); name; name = strtok(NULL, ","))
        read_language(corpus, dict, name);
    if (corpus->languages < 2)
        fail("--languages must name two word lists or more");
    shuffle(corpus, corpus->samples, seed);
    if (most > 0 && most < corpus->samples)
        corpus->samples = most;
    if (corpus->samples < 20)
        fail("only %zu words: too few to set one in 20 apart", corpus->samples);
    corpus->train = corpus->samples - corpus->samples / 20;
}

static void free_corpus(struct corpus *corpus)
{
    free(corpus->names);
    free(corpus->sample);
    free(corpus->text);
}

#endif
