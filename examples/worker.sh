#!/bin/sh
# A worker in a shell script: claims jobs of a queue one after another, runs the "command" of their
# payload, and ends when none is left. usage: worker.sh [QUEUE]
#     tend add -q shell --payload '{"command": "echo hello"}'
#     ./worker.sh shell
# Needs jq. The leases are tied to this script: if it is killed, its job is free again at once.
set -u

queue=${1:-default}
me=$(hostname):$$
nap=

# A sign of life every 20 s while the job runs; when the lease is lost, the job is stopped.
# usage: keep_alive LEASE PID
keep_alive() {
    trap 'kill "$nap" 2>/dev/null; exit' TERM
    while :; do
        sleep 20 &
        nap=$!
        wait "$nap"
        tend heartbeat "$1" >/dev/null || {
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

    sh -c "$command" &
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
