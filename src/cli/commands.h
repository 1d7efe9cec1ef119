/* Every command's row; each is defined in the file of its name (cmd_add.c …). */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/command.h"

extern const struct command cmd_add, cmd_wait, cmd_jobs, cmd_show, cmd_explain;
extern const struct command cmd_cancel, cmd_retry, cmd_hold, cmd_resume;
extern const struct command cmd_claim, cmd_start, cmd_heartbeat, cmd_phase;
extern const struct command cmd_complete, cmd_fail, cmd_release, cmd_with_lease;
extern const struct command cmd_work, cmd_run, cmd_logs, cmd_control, cmd_top;
extern const struct command cmd_patch, cmd_workspace;
extern const struct command cmd_heal, cmd_purge, cmd_lock, cmd_workers, cmd_events;
extern const struct command cmd_queues, cmd_queue, cmd_schedule, cmd_notify, cmd_stats;
extern const struct command cmd_doctor, cmd_migrate;
extern const struct command cmd_help, cmd_version, cmd_completion, cmd_complete_words;
extern const struct command cmd_demo, cmd_demo_worker;
extern const struct command cmd_bench, cmd_bench_child;

/* tend __exec, which is no row: nothing of a command line is set up for it (cmd_exec.c). */
int cmd_exec_main(int argc, char **argv);

#endif
