# tend top, and what tend show and tend stats tell of steps.
load helper
load running
load terminal

@test "one look at queues, workers and running steps" {
    tend add -q other >/dev/null
    id=$(tend add --payload "$(jq -n --arg run "echo progress=30 half >>\$TEND_OUTPUT; $(gated one)" \
        '{steps: [{id: "wait", $run}]}')")
    start_worker
    until_true test -s one.pid
    seen() { tend top | grep -Eq "^ *$id +1 wait +1 +[0-9]+s .*30% half"; }
    until_true seen
    run -0 tend top --once
    [[ "${lines[0]}" == *"1 pending, 1 running, 0 failed, 1 worker, 1 step" ]]
    [[ "$output" == *"default "*"other "* ]]
    [[ "$output" == *" $worker  yes "* ]]
    run -0 tend top --json
    json "(.running | length) == 1 and .running[0].job_id == $id and .running[0].progress_percent == 30"
    json '.queues | map(.name) == ["default", "other"]'
    json ".workers[0].pid == $worker and .now_ms > 0"
    touch gate
    until_true has_state "$id" 'done'
    run -0 tend top --json
    json '.running == []'
}

@test "without a store" {
    fails 3 tend top
    run -3 tend top --once --json
}

# The cursor's place is kept by the change of screens: nothing may move it before.
is_left_as_it_was() {
    [ "$(head -c 8 seen)" = $'\033[?1049h' ]
    [[ "$(tail -c 40 seen)" == *$'\033[0m\033[?7h\033[?25h'* ]]
    [ "$(cat before)" = "$(cat after)" ]
}

start_top() {
    start_on_terminal "stty -a >before; $(with_pid top); ended=\$?; stty -a >after; exit \$ended"
}

@test "on a terminal it is live on the other screen, and q ends it" {
    tend add -q somewhere >/dev/null
    start_top
    until_true sees somewhere
    tend add -q elsewhere >/dev/null
    until_true sees elsewhere
    press q
    terminal_ended
    [ "$status" = 0 ]
    is_left_as_it_was
    [ "$(tail -c 8 seen)" = $'\033[?1049l' ]
}

@test "the terminal is left as it was after ^C, SIGTERM and an error, too" {
    tend add -q somewhere >/dev/null
    start_top
    until_true sees somewhere
    press '\003'
    terminal_ended
    is_left_as_it_was
    start_top
    until_true sees somewhere
    kill -TERM "$(cat pid)"
    terminal_ended
    is_left_as_it_was
    start_top
    until_true sees somewhere
    sqlite3 .tend/tend.db 'ALTER TABLE worker RENAME TO nobody'
    terminal_ended
    [ "$status" = 1 ]
    [ "$(cat before)" = "$(cat after)" ]
    # The sentence stands behind the change of screens, where it stays.
    [[ "$(tail -n 1 seen)" == $'\033[?1049ltend: '*worker* ]]
}

@test "on a narrow terminal nothing is wider than that, and elsewhere nothing is cut" {
    long=a-queue-with-a-name-that-is-rather-long
    tend add -q $long -k with.a.long.kind.as.well >/dev/null
    tend queue set $long --paused on --why 'because of the night' >/dev/null
    for columns in 100 60 40; do
        for command in jobs queues 'top --once'; do
            on_terminal $columns "'$TEND' $command" >text
            grep -q … text
            [ "$(LC_ALL=C.UTF-8 wc -L <text)" -le $columns ] || { cat text; false; }
        done
    done
    for command in jobs queues 'top --once'; do
        tend $command | grep -q $long
        ! tend $command | grep -q … || false
    done
}

# SH-5
@test "show tells of attempts, checkpoints and what is asked for" {
    id=$(tend add --max-attempts 1 --payload '{"steps": [
        {"id": "fine", "run": "echo n=1 >>$TEND_OUTPUT"},
        {"id": "bad", "run": "echo some words; echo \"error: permission denied to push\" >&2; exit 1",
         "classify": [{"match": "permission denied", "class": "deterministic_policy"}]}]}')
    tend work --drain >/dev/null
    run -0 tend show "$id"
    grep -Eq '^ +1  1 fine +1  succeeded' <<<"$output"
    grep -Eq '^ +2  2 bad +1  failed +deterministic_policy .*permission denied to push' <<<"$output"
    grep -Eq '^  1 fine +1 .*\{"n":"?1"?\}' <<<"$output"
    run -0 tend show "$id" --json
    json '.attempts[1] | .failure_class == "deterministic_policy" and (.evidence | contains("permission denied"))'
    json '.attempts[1] | .rule != null and .exit_code == 1 and .ended_at_ms >= .started_at_ms'
    json '.checkpoints | length == 1 and .[0].step_id == "fine" and .[0].number == 1'
    json '.controls == [] and (.events | length) > 4'
}

@test "show of a job without steps has none" {
    tend add >/dev/null
    run -0 tend show 1
    [[ "$output" != *attempts$'\n'* ]]
    run -0 tend show 1 --json
    json '.attempts == [] and .checkpoints == [] and .controls == []'
}

metric() {
    grep -Fxq -- "$1" <<<"$output" || { echo "missing: $1"; return 1; }
}

# SH-14
@test "stats for Prometheus" {
    tend add -q 'odd "name"\' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "[ $TEND_STEP_ATTEMPT = 2 ] || exit 75"}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "echo always the same; exit 75"}' >/dev/null
    tend add --payload '{"run": "exit 65"}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "sleep 60", "timeout": "100ms", "attempts": 1}' >/dev/null
    tend add --max-attempts 1 --payload '{"run": "sleep 60", "idle_timeout": "100ms", "attempts": 1}' >/dev/null
    tend work --drain >/dev/null
    run -0 tend stats --prometheus
    metric 'tend_jobs{queue="default",state="done"} 1'
    metric 'tend_jobs{queue="default",state="failed"} 4'
    metric 'tend_jobs{queue="odd \"name\"\\",state="pending"} 1'
    metric 'tend_queue_paused{queue="default"} 0'
    metric 'tend_workers 0'
    metric 'tend_jobs_added_total{queue="default"} 5'
    metric 'tend_jobs_completed_total{queue="default"} 1'
    metric 'tend_jobs_failed_total{queue="default"} 4'
    metric 'tend_jobs_quarantined_total{queue="default"} 0'
    metric 'tend_jobs_added_total{queue="odd \"name\"\\"} 1'
    grep -Eq '^tend_queue_oldest_pending_seconds\{queue="odd .*\} [0-9]+\.[0-9]{3}$' <<<"$output"
    metric 'task_self_heal_attempts_total{class="transient_runtime",strategy="soft_reset",outcome="retried"} 3'
    metric 'task_self_heal_attempts_total{class="transient_runtime",strategy="soft_reset",outcome="recovered"} 1'
    metric 'task_self_heal_attempts_total{class="deterministic_contract",strategy="none",outcome="failed"} 1'
    metric 'task_self_heal_recovered_total 1'
    metric 'task_self_heal_exhausted_total 3'
    metric 'task_step_no_progress_total 1'
    metric 'task_step_wall_timeout_total 1'
    metric 'task_step_idle_timeout_total 1'
    metric 'task_step_duration_seconds_count{outcome="succeeded"} 1'
    metric 'task_step_duration_seconds_count{outcome="failed"} 7'
    # Every name is explained once, before its figures.
    [ "$(grep -c '^# TYPE' <<<"$output")" = "$(grep '^# TYPE' <<<"$output" | cut -d' ' -f3 | sort -u | wc -l)" ]
    run -2 tend stats --prometheus --json
}

# Symptom: between two attempts of a step, top showed no step and explain none either.
@test "a step that waits for its next attempt is shown" {
    export TEND_STEP_PAUSE_SECONDS=600
    id=$(tend add --payload '{"steps": [{"id": "two", "run": "echo no route to host; exit 1"}]}')
    start_worker
    waits() { tend top --json | jq -e '.waiting[0].step_id == "two"' >/dev/null; }
    until_true waits
    run -0 tend top --once
    [[ "$output" == *"1 two"*"failed ("*"); attempt 2 begins in "* ]]
    run -0 tend explain "$id"
    [[ "$output" == *"Step 1 (two) failed with attempt 1 ("*"attempt 2 begins in "* ]]
    run -0 tend explain "$id" --json
    json '.step_id == "two" and .attempt == 1 and .line == "no route to host" and .next_at_ms > 0'
}
