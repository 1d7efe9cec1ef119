/*
 * Whether a shell can start the command of a line at all. It ends with 126 or 127 when it cannot,
 * but so may a script that has begun its work and then misses a tool.
 */
#ifndef RUN_SHELL_WORD_H
#define RUN_SHELL_WORD_H

#include <stdbool.h>

/*
 * True only where that is sure: the first word of the line is a plain name, no word of the shell,
 * and no such file can be executed. folder: where the line runs, for relative paths; NULL: not
 * known.
 */
bool shell_lacks_command(const char *line, const char *folder);

#endif
