# Running on PostgreSQL. TEND_TEST_PG_URL is a server; each test has a database of its own.
load helper
load running

setup() {
    unset TEND_STATSD NOTIFY_SOCKET
    cd "$BATS_TEST_TMPDIR" || return
    started=()
    own_database run
    tend migrate >/dev/null
}

teardown() {
    end_started
    drop_database
}

@test "add, work, show, logs and figures" {
    id=$(tend add --max-attempts 1 --payload '{"steps": [{"id": "a", "run": "echo from a"},
        {"id": "b", "run": "echo from b; [ $TEND_STEP_ATTEMPT = 2 ] || exit 75"}]}')
    tend add -k double --payload '{"n": 21}' >/dev/null
    tend work --drain --handler 'double=jq -c "{twice: (.n * 2)}"' >work.log
    run -0 tend logs "$id"
    [ "$output" = $'from a\nfrom b\nfrom b' ]
    run -0 tend show "$id" --json
    json '.job.state == "done" and [.attempts[].state] == ["succeeded", "failed", "succeeded"]'
    json '[.checkpoints[].step_id] == ["a", "b"]'
    run -0 tend jobs --kind double --json
    json '.result.twice == 42'
    run -0 tend stats --prometheus
    grep -Fxq 'task_self_heal_recovered_total 1' <<<"$output"
    grep -Fxq 'task_self_heal_attempts_total{class="transient_runtime",strategy="soft_reset",outcome="retried"} 1' \
        <<<"$output"
}

@test "logs -f, top and control from another process" {
    id=$(tend add --max-attempts 1 --payload "$(jq -n --arg run "echo early; $(gated one)" \
        '{steps: [{id: "wait", $run}]}')")
    start_worker
    "$TEND" logs -f "$id" >followed 2>&1 3>&- &
    follower=$!
    started+=("$follower")
    until_true grep -q early followed
    run -0 tend top --json
    json "[.running[].job_id] == [$id] and (.workers | length) == 1"
    tend control "$id" takeover >/dev/null
    until_true has_state "$id" held
    is_gone "$(cat one.pid)"
    touch gate
    tend control "$id" resume >/dev/null
    ended "$follower"
    [ "$status" = 0 ]
    grep -q 'one is through' followed
    kill -TERM "$worker"
    ended "$worker"
    [ "$status" = 0 ]
}

# Symptom: --drain asked whether /proc is mounted, or whether the server is running, for ever.
@test "however few descriptors there are, --drain ends and says what is lacking" {
    end_without_descriptors 6 24 work --drain
}

@test "a second signal gives the job back" {
    id=$(tend add --payload "$(jq -n --arg run "$(gated one)" '{$run}')")
    start_worker --stop-after 1h
    until_true test -s one.pid
    kill -TERM "$worker"
    until_true log_says 'stopping; what runs is waited for'
    kill -TERM "$worker"
    until_true log_says 'is given back: worker .* was told to stop'
    ended "$worker"
    [ "$status" = 0 ]
    is_gone "$(cat one.pid)"
    run -0 tend show "$id" --json
    json '.job.state == "pending" and .job.attempts == 0 and .job.crashes == 0'
}

@test "a flow file" {
    echo 'stages: [{steps: [{run: echo one}, {run: echo two}]}]' >flow.yaml
    run -0 tend run flow.yaml
    [[ "$output" == *"is done, "* ]]
    run -0 tend logs "$(tend jobs --json | jq .id)"
    [ "$output" = $'one\ntwo' ]
    echo 'stages: [{run: exit 65}]' >flow.yaml
    run -1 tend run flow.yaml
}

# hold_queue: another session locks the row of the queue until let_go
hold_queue() {
    mkfifo held
    psql -qX "$TEND_STORE" <held >/dev/null 3>&- &
    started+=("$!")
    exec {holder}>held
    echo "BEGIN; SELECT * FROM tend.queue FOR UPDATE;" >&"$holder"
    until_true ask "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '$name' AND state = 'idle in transaction'"
}

let_go() {
    echo "COMMIT;" >&"$holder"
    exec {holder}>&-
}

ask() {
    [ "$(psql -qAtX "$TEND_TEST_PG_URL" -c "$1")" = t ]
}

# somebody_waits SECONDS: a statement has been waiting for the row for longer than that
somebody_waits() {
    ask "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = '$name' AND wait_event_type = 'Lock' AND
        clock_timestamp() - query_start > interval '$1 seconds'"
}

three_jobs_of_a_limited_queue() {
    tend queue set default --concurrency 2 >/dev/null
    seq 3 | sed 's/.*/{"payload":{"run":"true"}}/' | tend add --batch - >/dev/null
}

# Symptom: exit status 0 at once, with three jobs pending.
@test "a statement_timeout of the role or database is not ours: work --drain waits for what is held" {
    psql -qX "$TEND_TEST_PG_URL" -c "ALTER DATABASE $name SET statement_timeout = '300ms'"
    three_jobs_of_a_limited_queue
    hold_queue
    "$TEND" work --drain >work.log 2>&1 3>&- &
    worker=$!
    started+=("$worker")
    until_true somebody_waits 0.6
    let_go
    ended "$worker"
    [ "$status" = 0 ]
    [ "$(tend stats --json | jq .jobs.done)" = 3 ]
}

@test "a statement that the server cancels is no interrupt: claim says what it was, work --drain goes on" {
    three_jobs_of_a_limited_queue
    hold_queue
    "$TEND" claim -w me >claimed 2>said 3>&- &
    claimer=$!
    until_true somebody_waits 0
    until_true ask "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity
        WHERE datname = '$name' AND wait_event_type = 'Lock'"
    ended "$claimer"
    [ "$status" = 69 ]
    grep -q 'pg_cancel_backend' said
    "$TEND" work --drain >work.log 2>&1 3>&- &
    worker=$!
    started+=("$worker")
    until_true somebody_waits 0
    psql -qX "$TEND_TEST_PG_URL" -c "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE datname = '$name' AND wait_event_type = 'Lock'" >/dev/null
    until_true grep -q 'pg_cancel_backend' work.log
    let_go
    ended "$worker"
    [ "$status" = 0 ]
    [ "$(tend stats --json | jq .jobs.done)" = 3 ]
}

# RC-11. Symptom: the worker went on in the new store, where it was not registered.
@test "a worker with a job ends with status 69 when its store was dropped and made anew" {
    tend add --payload "$(jq -n --arg run "$(gated one)" '{$run}')" >/dev/null
    "$TEND" work >work.log 2>err 3>&- &
    worker=$!
    started+=("$worker")
    until_true test -s one.pid
    psql -qX "$TEND_STORE" -c 'SET client_min_messages = error; DROP SCHEMA tend CASCADE'
    tend add -q other >/dev/null
    ended "$worker"
    [ "$status" = 69 ]
    grep -q 'was dropped or replaced while it was open' err
    run -0 tend jobs --json
    json '.state == "pending"'
}
