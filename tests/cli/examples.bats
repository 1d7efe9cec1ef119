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

# A command of the worker script that starts another; their ids are in the files shell and child.
nested='{"command": "echo $$ >shell; sleep 1000 & echo $! >child; wait"}'

teardown() {
    [ ! -s child ] || kill -KILL "$(cat shell)" "$(cat child)" 2>/dev/null || true
}

start_script() {
    "$TEND_SOURCE/examples/worker.sh" shell >log 2>&1 3>&- &
    worker=$!
    until_true test -s child
}

is_gone() {
    ! kill -0 "$1" 2>/dev/null
}

# The command ran on after a kill -9 of the script, beside the next run of the same job.
@test "the worker script's job is free again when the script is killed, and its command has ended" {
    PATH=$(dirname "$TEND"):$PATH
    tend add -q shell --payload "$nested" >/dev/null
    start_script
    kill -KILL $worker
    wait $worker || true
    until_true is_gone "$(cat shell)"
    until_true is_gone "$(cat child)"
    run --separate-stderr -0 tend claim -q shell
    json '.id == 1'
}

# Only the shell got the signal, and what it had started ran on.
@test "the worker script ends all of a command whose lease is lost" {
    PATH=$(dirname "$TEND"):$PATH
    export BEAT=0.1
    tend add -q shell --payload "$nested" >/dev/null
    start_script
    tend cancel 1 >/dev/null
    wait $worker
    until_true is_gone "$(cat shell)"
    until_true is_gone "$(cat child)"
}

# A store that was out of reach for a moment ended the command and cost an attempt.
@test "the worker script goes on when a heartbeat fails otherwise" {
    mkdir bin
    cat >bin/tend <<EOF
#!/bin/sh
[ "\$1" != heartbeat ] || { echo beat >>beats; exit 69; }
exec "$TEND" "\$@"
EOF
    chmod +x bin/tend
    PATH=$PWD/bin:$PATH
    export BEAT=0.1
    tend add -q shell --payload \
        '{"command": "until [ $(grep -c beat beats) -ge 2 ]; do sleep 0.02; done"}' >/dev/null
    touch beats
    run -0 "$TEND_SOURCE/examples/worker.sh" shell
    [ "$(state_of 1)" = 'done' ]
}

@test "the command of the README's loop ends with its script" {
    mkdir bin
    printf '#!/bin/sh\necho $$ >shell\nsleep 1000 &\necho $! >child\nwait\n' >bin/send-mail
    chmod +x bin/send-mail
    PATH=$PWD/bin:$(dirname "$TEND"):$PATH
    sed -n '/^while job=/,/^done/p' "$TEND_SOURCE/README.md" >loop
    grep -q send-mail loop
    tend add -q mail --payload '{"to": "ann@example.org"}' >/dev/null
    for shell in sh bash; do
        rm -f child
        $shell loop >log 2>&1 3>&- &
        worker=$!
        until_true test -s child
        kill -KILL $worker
        wait $worker || true
        until_true is_gone "$(cat shell)"
        until_true is_gone "$(cat child)"
    done
}
