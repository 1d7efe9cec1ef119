# A process that is stopped: in the middle of a write (SIGSTOP), which nobody can prevent, and by
# Ctrl-Z (SIGTSTP), which tend's own programs obey outside of a write. On SQLite.
load helper
load running
load terminal

# Writes without end; $adder is its pid.
start_adder() {
    tend add -q first >/dev/null
    mkfifo lines
    yes '{"queue":"many","payload":"x"}' >lines 2>/dev/null 3>&- &
    started+=("$!")
    "$TEND" add --batch lines >/dev/null 2>&1 3>&- &
    adder=$!
    started+=("$adder")
    until_true wrote
}

wrote() {
    [ -n "$(tend jobs -q many --json 2>/dev/null | head -c 20)" ]
}

# holds_turn: the kernel shows the lock of the first byte
holds_turn() {
    cat /proc/"$adder"/fdinfo/* 2>/dev/null | grep -q 'OFDLCK.*WRITE.* 0 0$'
}

state() {
    sed 's/.*) //' /proc/"$adder"/stat | cut -c1
}

is_stopped() {
    [ "$(state)" = T ]
}

# stop_in_turn: by SIGSTOP, in the middle of a write
stop_in_turn() {
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        kill -STOP "$adder"
        until_true is_stopped
        ! holds_turn || return 0
        kill -CONT "$adder"
        sleep 0.01
    done
    echo "it was never stopped in the middle of a write"
    return 1
}

@test "a claim behind a stopped writer says who it is, in its time" {
    start_adder
    stop_in_turn
    SECONDS=0
    run --separate-stderr -69 tend claim -q first -w me --wait 2s
    [ "$SECONDS" -lt 20 ]
    [[ "$stderr" == *"process $adder (tend) has been stopped in the middle of a write"* ]]
    [[ "$stderr" == *"kill -CONT $adder"* ]]
    [[ "$stderr" != *"held by"* ]]
    run --separate-stderr -69 tend lock acquire l --owner me --wait 1s --json
    [[ "$stderr" == *"process $adder (tend) has been stopped"* ]]
    [ "$(jq -r '.error | "\(.code) \(.exit)"' <<<"$stderr")" = "EBUSY 69" ]
    kill -CONT "$adder"
    tend claim -q first -w me --wait 20s
}

@test "the doctor names a stopped writer" {
    start_adder
    stop_in_turn
    run -1 tend doctor
    [[ "$output" == *"BAD  write lock: process $adder (tend) has been stopped in the middle of a write"* ]]
    kill -KILL "$adder"
    wait "$adder" || true
    run -0 tend doctor
    [[ "$output" == *"ok   write lock: in force"* ]]
}

@test "work says once that the store cannot be written, and once that it can again" {
    start_adder
    stop_in_turn
    start_worker -q first
    until_true grep -q "the store cannot be written: process $adder (tend) has been stopped" work.log
    kill -CONT "$adder"
    until_true grep -q "the store can be written again" work.log
    [ "$(grep -c "the store cannot be written" work.log)" = 1 ]
}

# outlive_stop SIGNAL: a step runs for longer than its lease while a stopped process keeps all from
# writing, until that one gets the signal. A healer is in line meanwhile, to take what it can.
outlive_stop() {
    tend queue set first --lease 12s
    start_adder
    start_worker -q first
    id=$(tend add -q first --payload '{"run": "echo begun >> ran; sleep 16; echo ended >> ran"}')
    until_true grep -q begun ran
    stop_in_turn
    until_true grep -q "leases cannot be extended: .*process $adder (tend) has been stopped" work.log
    until_true grep -q "nobody can write to the store: no lease ends meanwhile" work.log
    until_true grep -q ended ran
    is_stopped
    tend heal --json >healed.json 3>&- &
    healer=$!
    started+=("$healer")
    # RC-3: nobody announces what nobody will do.
    tend heal --dry-run --json >stale.json
    [ "$(jq .entries_reclaimed stale.json)" = 0 ]
    tend explain "$id" >why
    grep -q "Nobody could write to the store for" why
    run -1 grep "has expired" why
    kill -"$1" "$adder"
    wait "$healer"
    [ "$(jq .entries_reclaimed healed.json)" = 0 ]
    is_done() { [ "$(state_of "$id")" = done ]; }
    until_true is_done
    until_true grep -q "the store answers again" work.log
    [ "$(grep -c "leases cannot be extended" work.log)" = 1 ]
    [ "$(cat ran)" = $'begun\nended' ]
    tend show "$id" --json >job.json
    [ "$(jq -c '[(.attempts | length), .job.crashes]' job.json)" = '[1,0]' ]
}

# The step was ended after two thirds of its lease, although nobody could have taken the lease.
@test "BY-9: a step goes on for longer than its lease while a stopped process keeps all from writing" {
    outlive_stop CONT
}

@test "BY-9: a step goes on also when the stopped process is killed" {
    outlive_stop KILL
}

@test "workers and explain say that the process of a worker is stopped" {
    tend add -q first --payload '{"run": "sleep 600"}' >/dev/null
    start_worker -q first
    runs() { [ "$(state_of 1)" = running ]; }
    until_true runs
    kill -STOP "$worker"
    shown() { tend workers | grep -q " $worker  *stopped "; }
    until_true shown
    run -0 tend workers --json
    json '.alive and .stopped'
    run -0 tend explain 1
    [[ "$output" == *"the process of that worker (pid $worker) is stopped"*"kill -CONT $worker"* ]]
}

@test "the step of a stopped worker is not said to run once its lease has expired" {
    tend queue set default --lease 1s >/dev/null
    id=$(tend add --payload '{"run": "sleep 600"}')
    start_worker
    begun() { tend show "$id" --json | jq -e '.attempts[0].state == "running"' >/dev/null; }
    until_true begun
    kill -STOP "$worker"
    expired() { tend explain "$id" | grep -q 'its lease has expired'; }
    until_true expired
    run -0 tend explain "$id"
    [[ "$output" == *"attempt 1, began "*" ago; its lease has expired, so its step has been ended."* ]]
    [[ "$output" == *"The process of that worker (pid $worker) is stopped."*"'tend heal'"*"kill -CONT $worker"* ]]
    [[ "$output" != *"has been running"* ]]
}

@test "Ctrl-Z stops a program that writes without end, and never in the middle of a write" {
    local round
    start_adder
    for ((round = 0; round < 20; round++)); do
        kill -TSTP "$adder"
        until_true is_stopped
        run -1 holds_turn
        tend add -q beside >/dev/null
        kill -CONT "$adder"
        sleep 0.0$((RANDOM % 5))
    done
}

@test "the shell sees Ctrl-Z as it always does, and fg goes on" {
    tend add -q first >/dev/null
    start_on_terminal "bash --norc --noprofile -i"
    press "'$TEND' work\n"
    works() { tend workers 2>/dev/null | grep -q yes; }
    until_true works
    press '\x1a'
    until_true sees Stopped
    press 'echo back in the sh""ell\n'
    until_true sees "back in the shell"
    press 'fg\n'
    id=$(tend add --payload '{"steps": [{"id": "one", "run": "true"}]}')
    is_done() { [ "$(state_of "$id")" = done ]; }
    until_true is_done
}

# Symptom: no timeout, cancel or signal reached the step any more, and the worker never ended.
@test "a step that stops its helper is ended by its timeout all the same" {
    tend add --max-attempts 1 --payload \
        '{"run": "kill -STOP $PPID; sleep 60", "timeout": "1s", "grace": "1s", "attempts": 1}' >/dev/null
    run -0 timeout -k 1 30 "$TEND" work --drain
    [[ "$output" == *"wall timeout of 1s reached"* ]]
    [ "$(tend jobs --json | jq -r .state)" = failed ]
}

@test "a command under with-lease that stops its helper ends with its own status" {
    tend add -q w >/dev/null
    lease=$(tend claim -q w --ttl 4s | jq -r .lease)
    run -0 timeout -k 1 30 "$TEND" with-lease "$lease" -- sh -c 'kill -STOP $PPID; exit 0'
    [ "$(tend jobs --json | jq -r .state)" = 'done' ]
}

# Symptom: the job was given back free of charge and run again, beyond every budget.
@test "a command whose helper is killed in its first moment counts as run" {
    for i in 1 2 3 4 5 6 7 8 9 10; do
        tend add --max-attempts 1 --max-crashes 1 --payload \
            '{"run": "echo x >>'"$PWD/runs-$i"'; kill -9 $PPID; sleep 60", "attempts": 1}' >/dev/null
    done
    run -0 timeout -k 1 60 "$TEND" work --drain
    for i in 1 2 3 4 5 6 7 8 9 10; do
        [ "$(cat "runs-$i")" = x ]
    done
}
