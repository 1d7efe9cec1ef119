# The examples do what they say. examples/embed.c is built and run by tests/house/embed.bats.
load helper

@test "the worker script drains its queue" {
    PATH=$(dirname "$TEND"):$PATH
    tend add -q shell --payload '{"command": "echo hello >>said"}' >/dev/null
    tend add -q shell --payload '{"command": "exit 3"}' --max-attempts 1 >/dev/null
    tend add -q shell --payload '{}' >/dev/null
    tend add -q shell --payload '{"command": "echo again >>said"}' >/dev/null
    run -0 "$TEND_SOURCE/examples/worker.sh" shell
    [ "$(cat said)" = $'hello\nagain' ]
    [ "$(tend jobs --json | jq -r .state | tr '\n' ' ')" = 'done failed failed done ' ]
    run -0 tend show 2 --json
    json '.job.error_text == "\"exit 3\" ended with status 3"'
}

@test "the worker script's job is free again when the script is killed" {
    PATH=$(dirname "$TEND"):$PATH
    tend add -q shell --payload '{"command": "echo $$ >pid; exec sleep 1000"}' >/dev/null
    "$TEND_SOURCE/examples/worker.sh" shell >log 2>&1 3>&- &
    worker=$!
    until_true test -s pid
    kill -KILL $worker
    wait $worker || true
    kill -KILL "$(cat pid)"
    run --separate-stderr -0 tend claim -q shell
    json '.id == 1'
}
