# tend top, and what tend show and tend stats tell of steps.
load helper
load running

@test "one look at queues, workers and running steps" {
    tend add -q other >/dev/null
    id=$(tend add --payload "$(jq -n --arg run "echo progress=30 half >>\$TEND_OUTPUT; $(gated one)" \
        '{steps: [{id: "wait", $run}]}')")
    start_worker
    until_true test -s one.pid
    seen() { tend top | grep -Eq "^ *$id +1 wait +1 +[0-9]+s .*30% half"; }
    until_true seen
    run -0 tend top --once
    [[ "${lines[0]}" == *"1 pending, 1 running, 0 failed, 1 workers, 1 steps" ]]
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

@test "on a terminal it is live on the other screen, and q ends it" {
    tend add -q somewhere >/dev/null
    mkfifo keys
    TERM=xterm "$(command -v script)" -qec "stty cols 80 rows 12; '$TEND' top" /dev/null <keys >seen 2>&1 3>&- &
    top=$!
    started+=("$top")
    exec 9>keys
    until_true grep -q somewhere seen
    tend add -q elsewhere >/dev/null
    until_true grep -q elsewhere seen
    printf q >&9
    ended "$top"
    exec 9>&-
    [ "$status" = 0 ]
    grep -q $'\033\\[?1049h' seen
    tail -c 30 seen | grep -q $'\033\\[?1049l'
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
    grep -Eq '^tend_queue_oldest_pending_seconds\{queue="odd .*\} [0-9]+\.[0-9]{3}$' <<<"$output"
    metric 'task_self_heal_attempts_total{class="transient_runtime",strategy="soft_reset",outcome="retried"} 2'
    metric 'task_self_heal_attempts_total{class="transient_runtime",strategy="soft_reset",outcome="recovered"} 1'
    metric 'task_self_heal_attempts_total{class="deterministic_contract",strategy="none",outcome="failed"} 1'
    metric 'task_self_heal_recovered_total 1'
    metric 'task_self_heal_exhausted_total 3'
    metric 'task_step_no_progress_total 1'
    metric 'task_step_wall_timeout_total 1'
    metric 'task_step_idle_timeout_total 1'
    metric 'task_step_duration_seconds_count{outcome="succeeded"} 1'
    metric 'task_step_duration_seconds_count{outcome="failed"} 6'
    # Every name is explained once, before its figures.
    [ "$(grep -c '^# TYPE' <<<"$output")" = "$(grep '^# TYPE' <<<"$output" | cut -d' ' -f3 | sort -u | wc -l)" ]
    run -2 tend stats --prometheus --json
}
