# tend control: each action on a job that runs, waits or has ended (SH-12).
load helper
load running

# Two steps: the first leaves a mark per try, the second waits for the gate.
two_steps() {
    jq -n --arg gate "$(gated two)" --arg mark "echo tried >>$PWD/first" \
        '{steps: [{id: "one", run: $mark}, {id: "two", run: $gate}]}'
}

start_two_steps() {
    id=$(tend add --max-attempts 1 --payload "$(two_steps)")
    start_worker
    until_true test -s two.pid
    pid=$(cat two.pid)
}

tries() {
    wc -l <first
}

is_known() {
    tend show "$1" | grep -q 'its worker knows'
}

restarted() {
    [ -s two.pid ] && [ "$(cat two.pid)" != "$pid" ]
}

@test "bad input" {
    tend add -- true >/dev/null
    fails 2 tend control
    fails 2 tend control 1
    fails 2 tend control x pause
    fails 2 tend control 1 puase
    says "did you mean pause?"
    fails 2 tend control 1 frobnicate
    says "hard_reset_step"
    fails 2 tend control 1 resume_from_step
    says "--step"
    fails 3 tend control 99 pause
    fails 4 tend control 1 resume_from_step --step nothing
    says "no step of it has begun"
    fails 4 tend control 1 resume
    says "pending"
    run -0 tend show 1 --json
    json '.controls == [] and .job.state == "pending"'
    run --separate-stderr -4 tend control 1 resume --json
    output=$stderr
    json '.error.code == "ESTATE" and .error.exit == 4'
}

@test "a waiting job is held and goes on, with who and why" {
    tend add -- true >/dev/null
    run -0 tend control 1 pause --reason 'not today'
    [ "$output" = 'job 1 is held: it waits until it is resumed' ]
    run -0 tend show 1 --json
    json '.controls[0] | .action == "pause" and .reason == "not today" and (.actor | contains("@"))'
    json '[.events[].what] | index("task.control.pause")'
    run -0 tend control 1 resume --json
    json '.state == "pending" and .open == false and .action == "resume" and .job_id == 1'
    run -0 tend control 1 cancel
    [[ "$output" == 'job 1 is cancelled'* ]]
    fails 4 tend control 1 pause
}

@test "pause takes hold before the next attempt; resume goes on from there" {
    id=$(tend add --max-attempts 1 --payload "$(jq -n --arg gate "$(gated one)" --arg mark "touch $PWD/after" \
        '{steps: [{id: "one", run: $gate}, {id: "two", run: $mark}]}')")
    start_worker
    until_true test -s one.pid
    run -0 tend control "$id" pause
    [ "$output" = "job $id runs: its worker pauses it before the next attempt, if there is one" ]
    run -0 tend show "$id"
    [[ "$output" == *"asked for"*"pause"* ]]
    until_true is_known "$id"
    touch gate
    until_true has_state "$id" held
    [ ! -e after ]
    run -0 tend control "$id" resume
    until_true has_state "$id" 'done'
    [ -e after ]
    run -0 tend show "$id" --json
    json '[.attempts[] | [.step_id, .state]] == [["one", "succeeded"], ["two", "succeeded"]]'
    json '.job.attempts <= 1'
}

@test "takeover stops the attempt and holds the job" {
    start_two_steps
    run -0 tend control "$id" takeover
    [[ "$output" == "job $id runs: its worker stops the attempt"* ]]
    until_true has_state "$id" held
    is_gone "$pid"
    touch gate
    tend control "$id" resume >/dev/null
    until_true has_state "$id" 'done'
    [ "$(tries)" = 1 ]
}

@test "an owner that has begun no step may not act on what is asked: said so, with what helps" {
    id=$(tend add --payload '{}')
    tend claim --exec "until [ -e gate ]; do sleep 0.02; done" 3>&- &
    started+=("$!")
    until_true has_state "$id" running
    for action in takeover pause; do
        run -0 tend control "$id" "$action"
        [ "$output" = "job $id runs, but its owner has begun no step: it is told with its next heartbeat and may not act on it ('tend with-lease' and 'tend claim --exec' hear only of cancel and hold); 'tend hold $id' takes the job away from it" ]
    done
    run -0 tend control "$id" takeover --json
    json '.open and (.has_step | not)'
    run -0 tend explain "$id"
    [[ "$output" == *"asked for takeover; its owner is told with its next heartbeat and may not act on it."* ]]
    [[ "$output" == *"hear only of cancel and hold."*"'tend hold $id' takes the job away from its owner."* ]]
    lease=$id:$(tend show "$id" --json | jq .job.token)
    tend heartbeat "$lease" >/dev/null
    run -0 tend explain "$id"
    [[ "$output" == *"its owner knows and may not act on it."* ]]
    run -0 tend control "$id" resume
    [ "$output" = "job $id runs: the pause is taken back; its owner is told with its next heartbeat" ]
    tend hold "$id" >/dev/null
    has_state "$id" held
}

@test "retry_step begins the step anew, and only that one" {
    start_two_steps
    run -0 tend control "$id" retry_step
    until_true restarted
    is_gone "$pid"
    touch gate
    until_true has_state "$id" 'done'
    [ "$(tries)" = 1 ]
    run -0 tend show "$id" --json
    json '[.attempts[] | select(.step_id == "two") | .state] == ["stopped", "succeeded"]'
    json '.controls[0].outcome'
}

@test "retry_step brings a failed job back at the step that failed" {
    id=$(tend add --max-attempts 1 --payload "$(jq -n --arg mark "echo tried >>$PWD/first" \
        --arg last "[ -e $PWD/mended ] || exit 65" '{steps: [{id: "one", run: $mark}, {id: "two", run: $last}]}')")
    tend work --drain >/dev/null
    [ "$(state_of "$id")" = failed ]
    touch mended
    run -0 tend control "$id" retry_step
    [ "$output" = "job $id is pending: its step is tried again" ]
    tend work --drain >/dev/null
    [ "$(state_of "$id")" = 'done' ]
    [ "$(tries)" = 1 ]
}

@test "resume_from_step goes back while the job runs" {
    start_two_steps
    run -0 tend control "$id" resume_from_step --step one --reason 'once more'
    [[ "$output" == "job $id runs: its worker goes on from that step" ]]
    until_true restarted
    [ "$(tries)" = 2 ]
    touch gate
    until_true has_state "$id" 'done'
    run -0 tend events --job "$id" --json
    grep -q task.resume.from_step <<<"$output"
}

@test "resume_from_step of a job that is done makes a new one that goes on from there" {
    touch gate
    id=$(tend add --payload "$(two_steps)")
    tend work --drain >/dev/null
    fails 3 tend control "$id" resume_from_step --step nothing
    says "nothing"
    run -0 tend control "$id" resume_from_step --step two --json
    new=$(jq .job_id <<<"$output")
    [ "$new" != "$id" ]
    json '.text | contains("stays as it is")'
    tend work --drain >/dev/null
    [ "$(state_of "$new")" = 'done' ]
    [ "$(tries)" = 1 ]
    run -0 tend show "$new" --json
    json '[.attempts[].step_id] == ["two"]'
}

@test "hard_reset_step begins in a fresh workspace" {
    git init -q -b main repo
    git -C repo -c user.name=a -c user.email=a@b commit -q --allow-empty -m start
    id=$(tend add --max-attempts 1 --payload "$(jq -n --arg repo "$PWD/repo" --arg gate "$(gated two)" \
        '{workspace: {$repo, ref: "main"}, steps: [{id: "one", run: "echo kept >kept"},
          {id: "two", run: ("cat kept; ls; echo dirt >dirt; " + $gate)}]}')")
    start_worker
    until_true test -s two.pid
    pid=$(cat two.pid)
    run -0 tend control "$id" hard_reset_step
    [[ "$output" == *"in a fresh workspace" ]]
    until_true restarted
    touch gate
    until_true has_state "$id" 'done'
    run -0 tend logs "$id" --step two
    [ "$output" = $'kept\nkept\nkept\nkept\ntwo is through' ]
}

# Symptom: it was said to be done, and the next worker served the rest of the pause and went on with attempt 2.
@test "retry_step and hard_reset_step are done when an attempt has begun, by whatever worker" {
    git init -q -b main repo
    git -C repo -c user.name=a -c user.email=a@b commit -q --allow-empty -m start
    for action in retry_step hard_reset_step; do
        rm -f gate full.pid
        id=$(tend add --payload "$(jq -n --arg repo "$PWD/repo" '{workspace: {$repo, ref: "main"}, run: "echo retry_after=50s >>$TEND_OUTPUT; exit 1"}')")
        start_worker -c 1
        until_true log_says 'attempt 2 of 3 follows in 50'
        tend add --payload "$(jq -n --arg run "$(gated full)" '{$run}')" >/dev/null
        until_true test -s full.pid
        tend control "$id" "$action"
        until_true is_known "$id"
        sleep 0.5
        run -0 tend show "$id" --json
        json '.controls[0].outcome == null'
        kill -KILL "$worker"
        wait "$worker" || true
        touch gate
        start_worker
        until_true log_says "job $id: step step-1, attempt 1 of 3"
        run -0 tend show "$id" --json
        json '.controls[0].outcome | startswith("the step begins")'
        json '[.attempts[].attempt] == [1, 1]'
        kill -KILL "$worker"
        wait "$worker" || true
        tend cancel "$id"
    done
    json '[.attempts[].strategy] == ["first", "hard_reset"]'
}

@test "hard_reset_step of a job without a workspace says so, and begins the step anew" {
    start_two_steps
    run -0 tend control "$id" hard_reset_step
    [ "$output" = "job $id runs: its worker begins the step anew; the job has no workspace to reset" ]
    until_true restarted
    touch gate
    until_true has_state "$id" 'done'
}

@test "cancel ends a running attempt" {
    start_two_steps
    run -0 tend control "$id" cancel --reason 'not needed'
    [[ "$output" == "job $id is cancelled"* ]]
    until_true is_gone "$pid"
    run -0 tend show "$id" --json
    json '.job.state == "cancelled" and .job.changed_why == "not needed"'
    # Its worker goes on with others.
    next=$(tend add -- true)
    until_true has_state "$next" 'done'
}
