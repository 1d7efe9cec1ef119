/* What is measured: one row each. The targets are those of docs/performance.md. */
#include "bench/bench.h"

#define RATE(name_, text_, engine_, target_, operation_, batch_, threads_, ...)                    \
    {                                                                                              \
        .name = (name_), .text = (text_), .engine = (engine_), .run = bench_throughput,            \
        .target = (target_), .operation = (operation_), .batch = (batch_), .threads = (threads_),  \
        __VA_ARGS__                                                                                \
    }
#define LITE(name, text, target, operation, batch, threads)                                        \
    RATE("sqlite/" name, text, ENGINE_SQLITE, target, operation, batch, threads)
#define POSTGRES(name, text, target, operation, batch, threads, ...)                               \
    RATE("postgresql/" name, text, ENGINE_POSTGRES, target, operation, batch, threads, __VA_ARGS__)

#define GROWTH(name_, text_, engine_, fill_, rows_)                                                \
    {                                                                                              \
        .name = (name_), .text = (text_), .engine = (engine_), .run = bench_growth, .target = 0.8, \
        .fill = (fill_), .rows = (rows_)                                                           \
    }
#define OTHER(name_, text_, engine_, run_, ...)                                                    \
    {                                                                                              \
        .name = (name_), .text = (text_), .engine = (engine_), .run = (run_), __VA_ARGS__          \
    }

const struct bench_case bench_cases[] = {
    OTHER("disk/sync", "4 KiB written and synced", ENGINE_NONE, bench_disk, .target = 0),

    LITE("add", "add one by one", 0.8, OPERATION_ADD, 1, 1),
    LITE("add-1000", "add in thousands", 0.5, OPERATION_ADD, 1000, 1),
    LITE("add-8-threads", "8 threads add one by one, group commit", 0.8, OPERATION_ADD, 1, 8),
    LITE("work", "claim and complete one by one", 0.7, OPERATION_WORK, 1, 1),
    LITE("turn", "complete one and claim the next", 0.7, OPERATION_TURN, 1, 1),
    LITE("work-100", "claim and complete in hundreds", 0.5, OPERATION_WORK, 100, 1),
    GROWTH("sqlite/growth-pending", "in hundreds with 1,000,000 pending, to 10,000", ENGINE_SQLITE,
           FILL_PENDING, 1000000),
    GROWTH("sqlite/growth-finished", "in hundreds with 1,000,000 finished beside", ENGINE_SQLITE,
           FILL_FINISHED, 1000000),
    GROWTH("sqlite/growth-scheduled", "in hundreds with 1,000,000 scheduled beside", ENGINE_SQLITE,
           FILL_SCHEDULED, 1000000),
    GROWTH("sqlite/growth-expired", "in hundreds with 100,000 expired leases beside", ENGINE_SQLITE,
           FILL_EXPIRED, 100000),
    GROWTH("sqlite/growth-keyed", "in hundreds behind 300,000 of a full key, to 1,000",
           ENGINE_SQLITE, FILL_KEYED, 300000),
    OTHER("sqlite/wake-up", "from add to start in a waiting process", ENGINE_SQLITE, bench_wake_up,
          .target = 1, .target_p99 = 5),
    OTHER("sqlite/takeover", "from kill -9 to start in another process", ENGINE_SQLITE,
          bench_takeover, .target = 20, .target_p99 = 100),
    OTHER("sqlite/idle", "CPU of a worker that waits", ENGINE_SQLITE, bench_idle, .target = 0.5),
    OTHER("sqlite/leases", "memory of a worker with 10,000 leases", ENGINE_SQLITE, bench_leases,
          .target = 64),
    OTHER("sqlite/listing", "memory of tend jobs over 1,000,000 rows", ENGINE_SQLITE, bench_listing,
          .target = 64),
    OTHER("steps/no-op", "a step that does nothing, to start it and commit", ENGINE_SQLITE,
          bench_noop, .target = 0.667),
    OTHER("steps/crowd", "memory of a worker with 1,000 steps at once", ENGINE_SQLITE, bench_crowd,
          .target = 200),
    OTHER("steps/output", "1 GiB of output, by the worker's CPU time", ENGINE_SQLITE, bench_output,
          .target = 500),
    OTHER("steps/control", "from tend control to the end of the step", ENGINE_SQLITE, bench_control,
          .target = 500, .target_p99 = 1000),
    OTHER("steps/workspace", "a workspace of 2,000 files, to git worktree add", ENGINE_NONE,
          bench_workspace, .rows = 2000, .history_mib = 50),
    OTHER("steps/workspace-large", "50,000 files and 1 GiB of history, to git worktree add",
          ENGINE_NONE, bench_workspace, .target = 1.3, .rows = 50000, .history_mib = 1024,
          .on_demand = true),

    POSTGRES("add", "add one by one", 0.8, OPERATION_ADD, 1, 1),
    POSTGRES("add-2", "the same on 2 connections", 0.8, OPERATION_ADD, 1, 2),
    POSTGRES("add-8", "the same on 8 connections", 0.8, OPERATION_ADD, 1, 8),
    POSTGRES("add-8-grouped", "the same, to group commit by hand", 0.8, OPERATION_ADD, 1, 8,
             .grouped = true),
    POSTGRES("add-1000", "add in thousands", 0.5, OPERATION_ADD, 1000, 1),
    POSTGRES("add-1000-2", "the same on 2 connections", 0.5, OPERATION_ADD, 1000, 2),
    POSTGRES("add-1000-8", "the same on 8 connections", 0.5, OPERATION_ADD, 1000, 8),
    POSTGRES("work", "claim and complete one by one", 0.7, OPERATION_WORK, 1, 1),
    POSTGRES("work-2", "the same on 2 connections", 0.7, OPERATION_WORK, 1, 2),
    POSTGRES("work-8", "the same on 8 connections", 0.7, OPERATION_WORK, 1, 8),
    POSTGRES("turn", "complete one and claim the next", 0.7, OPERATION_TURN, 1, 1),
    POSTGRES("turn-8", "the same on 8 connections", 0.7, OPERATION_TURN, 1, 8),
    POSTGRES("work-100", "claim and complete in hundreds", 0.5, OPERATION_WORK, 100, 1),
    POSTGRES("work-100-2", "the same on 2 connections", 0.5, OPERATION_WORK, 100, 2),
    POSTGRES("work-100-8", "the same on 8 connections", 0.5, OPERATION_WORK, 100, 8),
    GROWTH("postgresql/growth-pending", "in hundreds with 1,000,000 pending, to 10,000",
           ENGINE_POSTGRES, FILL_PENDING, 1000000),
    GROWTH("postgresql/growth-finished", "in hundreds with 1,000,000 finished beside",
           ENGINE_POSTGRES, FILL_FINISHED, 1000000),
    GROWTH("postgresql/growth-scheduled", "in hundreds with 1,000,000 scheduled beside",
           ENGINE_POSTGRES, FILL_SCHEDULED, 1000000),
    GROWTH("postgresql/growth-expired", "in hundreds with 100,000 expired leases beside",
           ENGINE_POSTGRES, FILL_EXPIRED, 100000),
    GROWTH("postgresql/growth-keyed", "in hundreds behind 300,000 of a full key, to 1,000",
           ENGINE_POSTGRES, FILL_KEYED, 300000),
    OTHER("postgresql/held-open", "60,000 drained with a transaction held open", ENGINE_POSTGRES,
          bench_held_open, .target = 0.7),
    OTHER("postgresql/wake-up", "from add to start in a waiting process", ENGINE_POSTGRES,
          bench_wake_up, .target = 2),
    OTHER("postgresql/takeover", "from kill -9 to start in another process", ENGINE_POSTGRES,
          bench_takeover, .target = 2100, .target_p99 = 2100),
    OTHER("postgresql/idle", "CPU of a worker that waits", ENGINE_POSTGRES, bench_idle,
          .target = 0.5),
    OTHER("postgresql/leases", "memory of a worker with 10,000 leases", ENGINE_POSTGRES,
          bench_leases, .target = 64),
    OTHER("postgresql/listing", "memory of tend jobs over 1,000,000 rows", ENGINE_POSTGRES,
          bench_listing, .target = 64),
    {.name = NULL},
};
