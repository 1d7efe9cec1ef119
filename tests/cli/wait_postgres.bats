# tend wait on PostgreSQL. TEND_TEST_PG_URL is a server; each test has a database of its own.
load helper
load running

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    started=()
    own_database wait
    tend migrate >/dev/null
}

teardown() {
    end_started
    drop_database
}

@test "wait and add --wait exit as the job did" {
    start_worker --handler 'double=jq -c "{twice: (.n * 2)}"'
    run -0 --separate-stderr tend add --wait --result -k double --payload '{"n": 4}'
    [ "$output" = '{"twice":8}' ]
    id=$(tend add -k double --payload '{"n": 1}')
    run -1 --separate-stderr tend add --wait --payload '{"run": "exit 65"}'
    run -1 --separate-stderr tend wait "$id" "$output"
    [[ "$stderr" == *' has failed, deterministic_contract: '* ]]
    fails 3 tend wait 4711
    says 'there is no job 4711'
}

@test "wait sleeps until a script has completed the job, or its time is over" {
    tend add >/dev/null
    claim
    fails 5 tend wait "$id" --timeout 50ms
    says "job $id is still running after 50ms"
    "$TEND" wait "$id" --result >result 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    tend complete "$lease" --result '{"a": 1}' >/dev/null
    ended "$waiter"
    [ "$status" = 0 ]
    [ "$(cat result)" = '{"a": 1}' ]
}

@test "add --wait under the key of a running job exits as what was submitted does" {
    tend add --unique k >/dev/null
    claim
    "$TEND" add --unique k --wait --payload '{"run": "exit 65"}' >said 2>&1 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true grep -qx "$id" said
    tend complete "$lease" >/dev/null
    until_true grep -q "job $id is done; what was submitted is job" said
    tend work --drain >/dev/null
    ended "$waiter"
    [ "$status" = 1 ]
    grep -q ' has failed, deterministic_contract: ' said
}
