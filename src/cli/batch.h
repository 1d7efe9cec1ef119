/* `tend add --batch`: many jobs from JSON lines. */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

struct cli;
struct tend_job_spec;

/*
 * Adds a job for each line of the file ("-": standard input); defaults holds what a line does not
 * say. Opens the store once the file is open and was found to be in order. Gives the exit status.
 */
int batch_add(struct cli *cli, const char *path, const struct tend_job_spec *defaults);

#endif
