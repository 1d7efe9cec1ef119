# tend demo: a worker is killed, its work goes on, and nothing stays behind.
load helper

# The demo's folder is the only thing in $TMPDIR.
setup() {
    unset TEND_STORE NO_COLOR TEND_RECOVERY_INTERVAL_MS
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
}

teardown() {
    local pid
    for pid in $(workers); do kill -KILL "$pid"; done
}

workers() {
    pgrep -f "__demo-worker $TMPDIR/tend-demo"
}

all_workers_run() {
    [ "$(workers | wc -l)" = 4 ]
}

nothing_left() {
    [ -z "$(ls -A "$TMPDIR")" ] && ! workers
}

# start …: runs the demo in the background until its workers run; $demo is its pid
start() {
    "$TEND" demo "$@" >out 2>err 3>&- &
    demo=$!
    until_true all_workers_run
}

# ended: waits for the demo; $status is how it ended
ended() {
    status=0
    wait "$demo" || status=$?
}

# RC-13, BY-2
@test "each job is completed once, and those of the killed worker by others" {
    run --separate-stderr -0 tend demo --json
    [ -z "$stderr" ]
    [ "${#lines[@]}" = 1 ]
    json '.ok and .wrong == [] and .jobs == 2000 and .completed_once == 2000'
    json '.lost == 0 and .completed_twice == 0'
    json '[.workers[] | select(.killed)] | length == 1'
    json '[.workers[].completed] | add == 2000'
    json '.takeover | .held > 0 and (.jobs | length) == .held and .killed != .noticed_by'
    json '.takeover | [.killed] - [.jobs[].taken_by] == [.killed]'
    json '.takeover | ([.jobs[].started_after_ms] | min) == .first_started_after_ms'
    json '.takeover | ([.jobs[].started_after_ms] | max) == .last_started_after_ms'
    json '.takeover | .noticed_after_ms >= 0 and .noticed_after_ms <= .first_started_after_ms'
    # Far from the end of a lease, which is 60 s away.
    json '.takeover.last_started_after_ms < 10000 and .elapsed_ms < 20000'
    nothing_left
    [ ! -e .tend ]
}

@test "without a terminal it tells its story in a few plain lines" {
    run -0 tend demo
    [ "${#lines[@]}" -lt 20 ]
    [[ "$output" != *$'\033'* ]]
    [[ "$output" == *"killed with SIGKILL, holding "* ]]
    [[ "$output" == *" noticed after "*"s and put the "* ]]
    [[ "$output" == *"all taken over within "* ]]
    [[ "$output" == *"each of the 2,000 jobs was completed exactly once"* ]]
    [[ "$output" == *"$TEND add -q"*"$TEND help"* ]]
    nothing_left
}

@test "on a terminal it redraws in place and gives the cursor back" {
    TERM=xterm run -0 script -qec "stty cols 70 rows 30; '$TEND' demo" /dev/null
    [[ "$output" == *$'\033[?25l'*$'\033[?25h'* ]]
    [[ "$output" == *"2,000"*" of 2,000"* ]]
    [[ "$output" == *"exactly once"* ]]
    # Redrawing needs the cursor at the beginning of the frame: no line of it may wrap.
    sed 's/\x1b\[[0-9;?]*[A-Za-z]//g; s/.*\r\(.\)/\1/; s/\r//g' <<<"$output" | sed '/exactly once/,$d' >view
    LC_ALL=C.UTF-8 run -1 grep -E '^.{70}' view
    LC_ALL=C.UTF-8 grep -qE '^.{60}' view
    nothing_left
}

@test "a terminal that cannot move its cursor gets plain lines" {
    TERM=dumb run -0 script -qec "'$TEND' demo" /dev/null
    [ "${#lines[@]}" -lt 20 ]
    [[ "$output" != *$'\033'* ]]
}

@test "a signal ends it with 128 + its number, and nothing stays behind" {
    for signal in INT:130 TERM:143 HUP:129; do
        start
        # A shell's background job ignores SIGINT; the demo does not.
        kill -"${signal%:*}" "$demo"
        ended
        [ "$status" = "${signal#*:}" ]
        nothing_left
        [ "$(cat err)" = "tend: demo: interrupted; its workers and its folder are gone" ]
    done
}

@test "when the demo itself is killed its workers clean up" {
    start
    kill -KILL "$demo"
    ended
    [ "$status" = 137 ]
    until_true nothing_left
}

@test "when all workers are killed it says what was lost, and fails" {
    start --json
    for pid in $(workers); do kill -KILL "$pid"; done
    ended
    [ "$status" = 1 ]
    output=$(cat out)
    json '.ok == false and .lost > 0 and .lost + .completed_once == 2000'
    json '.wrong[0] | contains("jobs were never completed; the first is job")'
    output=$(cat err)
    json '.error.exit == 1'
    nothing_left
}

@test "output that nobody reads ends it" {
    run -141 bash -c 'set -o pipefail; "$0" demo | head -n 1' "$TEND"
    [[ "${lines[0]}" == *"jobs added"* ]]
    until_true nothing_left
    run -1 bash -c '"$0" demo >/dev/full' "$TEND"
    [[ "$output" == *"cannot write the output"* ]]
    nothing_left
}

@test "it works on no store but its own" {
    fails 2 tend demo --store sqlite:mine.db
    says "leave --store out"
    TMPDIR=$TMPDIR/missing fails 1 tend demo
    says "cannot make a folder"
    nothing_left
}

@test "its worker is not a command for people" {
    run -0 tend help
    [[ "$output" == *"  demo "* ]]
    [[ "$output" != *__demo-worker* ]]
    # By hand, without a demo: it ends at once and removes nothing but what a demo has made.
    tend add --store sqlite:demo.db >/dev/null
    tend __demo-worker "$PWD" 'worker 1' 1
    [ -e demo.db ]
}
