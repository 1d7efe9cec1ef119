/* How run_screen.c prints: news as lines, running steps as a frame. */
#ifndef CLI_RUN_LINES_H
#define CLI_RUN_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <tend.h>

struct run_screen;

struct screen_news {
    struct screen_news *next;
    int64_t at_ms; /* by the wall clock */
    struct tend_runner_news news;
    char *text; /* news.text, which is freed by it */
};

/* One line, or one JSON object. */
void run_lines_plain(struct run_screen *screen, const struct screen_news *news);

/* A list of news, and below it what runs now; last: nothing runs any more. */
void run_lines_draw(struct run_screen *screen, const struct screen_news *news, bool last);

#endif
