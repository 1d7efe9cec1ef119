/*
 * Whether a word was made by a machine: ids, nonces, random names. Words people choose are not.
 *
 * Judged by its letters alone, so that a wrong answer is the same in every run.
 */
#ifndef CORE_SIGNATURE_WORD_H
#define CORE_SIGNATURE_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* word is letters and digits of ASCII, and begins with a letter. */
bool word_is_generated(const char *word, size_t len);

/* Parts of a pod's name, after a hyphen: web-bcdf7hjkl-x2x4q. They have no vowels, so no English
 * word fits. */
bool word_is_pod_part(const char *word, size_t len);

/* The part after the dash of a folder's name, as mkdtemp makes it: qzkfmw of build-qzkfmw. */
bool word_is_folder_part(const char *word, size_t len);

/* E0425, TS2304, SC2086: what a compiler calls a mistake tells failures apart. */
bool word_is_error_code(const char *word, size_t len);

#endif
