/* The payload of a job as a file, for the standard input of a command. */
#ifndef RUN_PAYLOAD_FILE_H
#define RUN_PAYLOAD_FILE_H

struct tend_job;

/* A file in memory, to be read from its beginning; the caller closes it. -1 with errno. */
int payload_file(const struct tend_job *job);

#endif
