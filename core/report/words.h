/* Numbers as people read them, with three digits and a unit: "12.3 MB", "4.56 ms", "0.780 %". None
 * depends on the locale of the program. */
#ifndef CORE_REPORT_WORDS_H
#define CORE_REPORT_WORDS_H

#include <stdint.h>

enum { SS_WORD = 32 };

/* Each fills the buffer of SS_WORD bytes and returns it; "-" if the number is not finite. */
const char *ss_word_bytes(char *word, double bytes);
const char *ss_word_seconds(char *word, double seconds);
const char *ss_word_share(char *word, double fraction);
const char *ss_word_factor(char *word, double factor);
const char *ss_word_count(char *word, uint64_t count); /* groups of three digits: 4,194,304 */
/* "6.99 times fewer", "7.81 times more"; of bytes in place of others, and their ratio. */
const char *ss_word_fewer(char *word, double ratio);

/* For the arguments of one call of printf. */
#define SS_BYTES(v)   ss_word_bytes((char[SS_WORD]){0}, v)
#define SS_SECONDS(v) ss_word_seconds((char[SS_WORD]){0}, v)
#define SS_SHARE(v)   ss_word_share((char[SS_WORD]){0}, v)
#define SS_FACTOR(v)  ss_word_factor((char[SS_WORD]){0}, v)
#define SS_FEWER(v)   ss_word_fewer((char[SS_WORD]){0}, v)
#define SS_COUNT(v)   ss_word_count((char[SS_WORD]){0}, v)

#endif
