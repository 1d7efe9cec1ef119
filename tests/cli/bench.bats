# tend bench: that it runs and what it prints. How fast anything is, is asserted nowhere.
load helper

@test "bench lists what it measures" {
    run -0 tend bench --list
    [[ "$output" == *"sqlite/add "* && "$output" == *"postgresql/held-open "* ]]
    run -0 tend bench --list --only 'sqlite/growth-*' --json
    [ "${#lines[@]}" = 5 ]
    [ "$(jq -s 'all(.name and .what)' <<<"$output")" = true ]
}

@test "bench measures both sides and gives their ratio" {
    run -0 tend bench --quick --only sqlite/add-1000 --only disk/sync --json --folder .
    json '.quick and .version and .seconds and .cores and (.not_met | type == "number")'
    json '[.results[].name] == ["disk/sync", "sqlite/add-1000"]'
    json '.results[1] | .raw > 0 and .ours > 0 and .ratio > 0 and .unit == "/s" and .what'
    json '.results[1] | .goal == "ratio" and .target == 0.5 and (.met | type == "boolean")'
    json '.results[0] | .raw > 0 and .ours == null and .goal == "none" and .target == null and .met'
    [ -z "$(ls)" ]
}

@test "bench with another process, as a table" {
    run -0 tend bench --quick --only sqlite/wake-up --folder .
    [[ "${lines[0]}" == NAME* ]]
    [[ "${lines[1]}" == "sqlite/wake-up "*p50*" ms "*met ]]
    [[ "${lines[2]}" == "sqlite/wake-up "*p99*" ms "*met ]]
    # One target missed, as on a busy machine, is "1 target", not "1 targets".
    missed=$(grep -c ' not met$' <<<"$output" || true)
    [[ "${lines[3]}" == "$missed target$([ "$missed" = 1 ] || echo s) not met; measured in "* ]]
    [ -z "$(ls)" ]
}

@test "bench compares a workspace with a worktree, and measures the large one only by its name" {
    run -0 tend bench --quick --only 'steps/workspace*' --json --folder .
    json '[.results[].name] == ["steps/workspace", "steps/workspace"]'
    json 'all(.results[]; .raw > 0 and .ours > 0 and .ratio > 0 and .unit == "ms")'
    [ -z "$(ls)" ]
    run -0 tend bench --list --only 'steps/workspace*'
    [ "${#lines[@]}" = 2 ]
    fails 2 tend bench --only 'steps/workspace-l*'
}

@test "bench measures PostgreSQL and leaves nothing there" {
    [ -n "${TEND_TEST_PG_URL:-}" ] || skip "no PostgreSQL"
    run -0 tend bench --quick --only postgresql/add --only postgresql/leases --json \
        --postgres "$TEND_TEST_PG_URL"
    json '[.results[].name] == ["postgresql/add", "postgresql/leases"]'
    json '.results[0].ratio > 0 and .results[1].ours > 0 and .results[1].unit == "MiB"'
    run -0 psql -At "$TEND_TEST_PG_URL" -c "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tend_bench%'"
    [ -z "$output" ]
}

@test "bench stopped by a signal leaves nothing behind" {
    "$TEND" bench --only sqlite/work --folder . >/dev/null 3>&- &
    until_true eval '[ -e tend-bench.*/tend.db ]'
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" = 143 ]
    [ -z "$(ls)" ]
}

@test "bench refuses what makes no sense" {
    fails 2 tend bench --only 'sqlite/nothing'
    says "--list"
    fails 2 tend bench --only 'postgresql/*'
    says "--postgres URL"
    fails 2 tend bench --postgres mysql://x
    fails 2 tend bench --store sqlite:x.db
    fails 3 tend bench --folder no/such/folder --only disk/sync
    fails 69 tend bench --only postgresql/add --postgres 'postgresql://127.0.0.1:1/none?connect_timeout=2'
}
