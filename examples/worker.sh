#!/bin/sh
# A worker in a shell script: claims jobs of a queue one after another, runs the "command" of their
# payload, and ends when none is left. usage: [BEAT=SECONDS] worker.sh [QUEUE]
#     tend add -q shell --payload '{"command": "echo hello"}'
#     ./worker.sh shell
# Needs jq. The leases are tied to this script: if it is killed, its job is free again at once, and
# setpriv ends the command. What the command has put into a session of its own goes on: `tend work`
# ends that, too.
set -u

queue=${1:-default}
beat=${BEAT:-20} # seconds between two heartbeats, a third of the lease
me=$(hostname):$$
nap=

# A sign of life at each beat, as long as this script lives; when the lease is lost (4), the job is
# stopped. After any other failure, such as a store that is out of reach (69), the next beat tries
# again. usage: keep_alive LEASE PID
keep_alive() {
    trap 'kill "$nap" 2>/dev/null; exit' TERM
    while :; do
        sleep "$beat" &
        nap=$!
        wait "$nap"
        kill -0 $$ 2>/dev/null || exit
        tend heartbeat "$1" >/dev/null
        [ $? != 4 ] || {
            kill "$2"
            exit
        }
    done
}

while :; do
    job=$(tend claim -q "$queue" -w "$me" --while-pid $$)
    status=$?
    # 5: nothing there. Anything else is worth a look.
    [ "$status" != 5 ] || exit 0
    [ "$status" = 0 ] || exit "$status"

    lease=$(printf '%s' "$job" | jq -r .lease)
    command=$(printf '%s' "$job" | jq -r '.payload.command? // empty')
    if [ -z "$command" ]; then
        tend fail "$lease" --final --class deterministic_contract \
            --text 'the payload has no "command"'
        continue
    fi

    # setpriv: TERM when this script dies. timeout (0: without a limit) makes a process group and
    # passes TERM on to all of it, then KILL after 10 s.
    setpriv --pdeathsig TERM timeout -k 10 0 sh -c "$command" &
    work=$!
    keep_alive "$lease" "$work" &
    alive=$!
    wait "$work"
    status=$?
    kill "$alive" 2>/dev/null # it may have ended by itself
    wait "$alive"

    if [ "$status" = 0 ]; then
        tend complete "$lease" --result '{"status": 0}'
    else
        tend fail "$lease" --text "\"$command\" ended with status $status"
    fi
done
