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
