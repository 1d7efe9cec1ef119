#!/bin/sh
# A worker in a shell script: claims jobs of a queue one after another, runs the "line" of their
# payload, and ends when none is left. usage: worker.sh [QUEUE]
#     tend add -q shell --payload '{"line": "echo hello"}'
#     ./worker.sh shell
# Needs jq. 'tend claim --exec' keeps the lease while the command runs, completes the job or fails it
# by the exit status, and ends all that the command has started when the lease is lost. If this
# script is killed, setpriv stops it, and its job is given back.
set -u

queue=${1:-default}

while :; do
    # shellcheck disable=SC2016  # for the shell that runs the command
    setpriv --pdeathsig TERM tend claim -q "$queue" --exec '
        line=$(jq -er .line) || exit 65 # the input is wrong: it is not tried again
        exec sh -c "$line"'
    status=$?
    case $status in
    0 | 1 | 4) ;;    # completed, failed, or taken away
    5) exit 0 ;;     # nothing there
    *) exit $status ;; # worth a look
    esac
done
