# The examples do what they say, and so do the commands of the README, as they stand there.
# examples/embed.c is built and run by tests/house/embed.bats.
load helper

# --- README.md ---

# A program in bin/ that notes how it was called in the file called.
stub() {
    printf '#!/bin/sh\necho "%s $*" >>"%s/called"\n%s\n' "$1" "$PWD" "${2:-}" >"bin/$1"
    chmod +x "bin/$1"
}

# All blocks of commands, in their order, as one script.
readme_commands() {
    awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$TEND_SOURCE/README.md"
}

run_readme() {
    mkdir bin
    stub send-mail
    stub make 'echo made'
    stub my-agent 'echo mended >>file'
    stub tell-ops
    PATH=$PWD/bin:$(dirname "$TEND"):$PATH
    mkdir project
    cd project
    git init -q -b main
    git -c user.name=n -c user.email=e@example.org commit -q --allow-empty -m begin
    readme_commands >../commands
    run -0 "$1" -eu ../commands
}

readme_is_true() {
    [ "$(readme_commands | grep -c '^tend ')" -ge 10 ]
    [ "$(grep -v '^my-agent' ../called | sort)" = $'make -j2 test\nmake test\nsend-mail ann@example.org' ]
    grep -q '^my-agent fix the build$' ../called
    [ "$(tend jobs --oldest --json | jq -r .state | tr '\n' ' ')" = 'done scheduled done done ' ]
    [[ "$output" == *"It is due in "* ]]
    [[ "$output" == *'tend_jobs_completed_total{queue="mail"} 1'* ]]
}

@test "every command of the README runs, in its order, in a fresh folder" {
    run_readme bash
    readme_is_true
}

@test "the commands of the README run in a plain shell, too" {
    run_readme sh
    readme_is_true
}

@test "every file the README points to is there, with the place in it" {
    grep -o '](\([^)h][^)]*\))' "$TEND_SOURCE/README.md" | sed 's/](\(.*\))/\1/' >files
    [ "$(wc -l <files)" -ge 8 ]
    while IFS='#' read -r file place; do
        [ -e "$TEND_SOURCE/$file" ] || { echo "no $file"; return 1; }
        [ -z "$place" ] || grep -q "id=\"$place\"" "$TEND_SOURCE/$file" || { echo "no $place in $file"; return 1; }
    done <files
}

# --- examples/worker.sh ---

@test "the worker script drains its queue" {
    PATH=$(dirname "$TEND"):$PATH
    tend add -q shell --payload '{"line": "echo hello >>said"}' >/dev/null
    tend add -q shell --payload '{"line": "exit 3"}' --max-attempts 1 >/dev/null
    tend add -q shell --payload '{}' >/dev/null
    tend add -q shell --payload '{"line": "echo again >>said"}' >/dev/null
    run -0 "$TEND_SOURCE/examples/worker.sh" shell
    [ "$(cat said)" = $'hello\nagain' ]
    [ "$(tend jobs --oldest --json | jq -r .state | tr '\n' ' ')" = 'done failed failed done ' ]
    run -0 tend show 2 --json
    json '.job.error_text == "exit 3"'
}

# A command of the worker script that starts another; their ids are in the files shell and child.
nested='{"line": "echo $$ >shell; sleep 1000 & echo $! >child; wait"}'

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

is_pending() {
    [ "$(state_of 1)" = pending ]
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
    until_true is_pending
    run -0 tend show 1 --json
    json '.job.attempts == 0 and .job.crashes == 0'
}

# Only the shell got the signal, and what it had started ran on.
@test "the worker script ends all of a command whose job is cancelled, and goes on" {
    PATH=$(dirname "$TEND"):$PATH
    tend add -q shell --payload "$nested" >/dev/null
    start_script
    tend cancel 1 >/dev/null
    wait $worker
    until_true is_gone "$(cat shell)"
    until_true is_gone "$(cat child)"
}
