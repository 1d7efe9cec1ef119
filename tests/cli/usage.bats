# What is the same for every command: options, help, suggestions, completion, the manual.
load helper

# The row of a command at the end of the table opened its group a second time.
@test "help: each group of commands is listed once" {
    run -0 tend help
    [ -z "$(grep '^[A-Z]' <<<"$output" | sort | uniq -d)" ]
}

@test "help lists every command, and each explains itself" {
    run -0 tend help
    for command in add jobs show explain cancel retry hold resume claim start heartbeat phase complete \
        fail release work run logs control top queues queue lock schedule heal workers events stats doctor migrate version \
        completion help; do
        [[ "$output" == *"  $command "* ]]
    done
    for command in $(tend __complete '' | cut -f 1); do
        run -0 tend "$command" --help
        [[ "$output" == "usage: tend $command"* ]]
        run -0 tend help "$command"
        [[ "$output" == "usage: tend $command"* ]]
    done
}

@test "help is JSON where that is asked for" {
    run -0 tend help --json
    json '[.commands[] | select(.name == "add")][0] | .group == "Jobs" and .text == "add a job and print its id"'
    json '[.options[].name] | contains(["store", "json"])'
    json '[.commands[] | select(.name | startswith("__"))] == []'
    run -0 tend --help --json
    json '.commands | length > 10'
    for call in 'help lock acquire' 'lock acquire --help'; do
        # shellcheck disable=SC2086
        run -0 tend $call --json
        json '.command == "lock acquire" and .form == "NAME"'
        json '[.options[] | select(.letter == "w")][0].required'
    done
    run -0 tend help work --json
    json '[.options[] | select(.name == "queue")][0] | .repeatable and .form == "QUEUE"'
    json '.examples[0] | startswith("tend work")'
    run --separate-stderr -2 tend help nothing --json
    [ "$(jq -r .error.code <<<"$stderr")" = EINVAL ]
}

@test "completion scripts are for shells that are known, also as JSON" {
    run -0 tend completion bash --json
    json '.shell == "bash" and (.script | startswith("# bash completion"))'
    [ "$(jq -r .script <<<"$output")" = "$(tend completion bash)" ]
    fails 2 tend completion tcsh
    says '"tcsh" is not one of bash, zsh, fish'
    run --separate-stderr -2 tend completion --json
    [[ "$(jq -r .error.message <<<"$stderr")" == *"bash|zsh|fish"* ]]
}

@test "subcommands have help of their own" {
    for command in 'lock acquire' 'queue set' 'schedule add'; do
        # shellcheck disable=SC2086
        run -0 tend help $command
        [[ "$output" == "usage: tend $command [OPTIONS] NAME"* ]]
        # shellcheck disable=SC2086
        run -0 tend $command --help
        [[ "$output" == "usage: tend $command [OPTIONS] NAME"* ]]
    done
}

@test "help of a mistyped command suggests one" {
    fails 2 tend help ad
    says 'help: there is no command "ad"; did you mean add?'
    fails 2 tend help schedule paus
    says 'help: there is no command "schedule paus"; did you mean schedule pause?'
    fails 2 tend help xyzzy
    says "'tend help' lists them"
    fails 2 tend help add more
    says 'help: there is no command "add more"'
}

@test "log means logs" {
    run -0 tend help log
    [[ "${lines[0]}" == 'usage: tend logs '* && "$output" == *'also called: log'* ]]
    fails 3 tend log 1
}

@test "help lines are not longer than 100 columns" {
    for command in '' add work run logs control top claim 'lock acquire' 'queue set' cancel; do
        # shellcheck disable=SC2086
        run -0 tend help $command
        run -1 grep -E '.{101}' <<<"$output"
    done
}

@test "no command is bad usage" {
    fails 2 tend
    says "tend help"
    [ ! -e .tend ]
}

@test "an unknown command is refused with the nearest" {
    fails 2 tend jbos
    says "did you mean jobs?"
    fails 2 tend lock aquire x
    says "did you mean lock acquire?"
    fails 2 tend frobnicate
    says "tend help"
    fails 2 tend lock
    says "tend help lock"
}

@test "an unknown option is refused with the nearest" {
    fails 2 tend add --qeue x
    says "add: unknown option --qeue; did you mean --queue?"
    fails 2 tend jobs --states pending
    says "did you mean --state?"
    fails 2 tend queue set x --concurency 3
    says "did you mean --concurrency?"
    fails 2 tend add -Z
    says "unknown option -Z"
    fails 2 tend --jsn add
    [ "$stderr" = 'tend: unknown option --jsn; did you mean --json?' ]
    [ ! -e .tend ]
}

# "tend: tend: unknown option -q; 'tend help' lists them", which it did not
@test "an option of a command that is given before its name is refused with the place where it belongs" {
    fails 2 tend -q a add
    [[ "$stderr" == 'tend: unknown option -q; options of one command come after its name (tend COMMAND -q …)'* ]]
    fails 2 tend --store
    [ "$stderr" = 'tend: --store needs a value: --store URL' ]
    fails 2 tend --json=x add
    [ "$stderr" = 'tend: --json takes no value' ]
    fails 2 tend --durability most add
    [[ "$stderr" == 'tend: --durability: "most" is not one of '* ]]
}

@test "an option without its value, or with one it does not take, is refused" {
    fails 2 tend add --queue
    says "--queue needs a value: --queue QUEUE"
    fails 2 tend claim --unstarted=yes
    says "--unstarted takes no value"
}

# The last one won, silently: half of what was meant was cancelled.
@test "an option that takes one value is refused when it is given again with another" {
    fails 2 tend cancel --queue v --queue u
    says 'cancel: --queue was given twice, with different values; give it once'
    fails 2 tend add -q v --queue=u
    fails 2 tend claim --wait --wait 5s
    fails 2 tend --store sqlite:a.db add --store sqlite:b.db
    run -0 tend add -q v --queue=v --tag a --tag b --json --json
    run -0 tend jobs --json --state pending --state done
    json '.queue == "v" and .tags == ["a", "b"]'
}

@test "missing, superfluous and malformed arguments are refused" {
    fails 2 tend show
    says "usage: tend show ID"
    fails 2 tend show 1 2
    says 'unexpected argument "2"'
    fails 2 tend lock acquire deploy
    says "--owner OWNER is missing"
    [ ! -e .tend ]
}

@test "options are read in all their forms" {
    tend add -qmail --kind=a -p 3 >/dev/null
    tend add --queue mail -k a --priority=3 >/dev/null
    tend --store sqlite:.tend/tend.db jobs --json --queue=mail >rows
    [ "$(jq -c '[.queue, .kind, .priority]' rows | sort -u)" = '["mail","a",3]' ]
    [ "$(wc -l <rows)" = 2 ]
}

@test "values are checked by their type" {
    fails 2 tend add --in -5m
    says '--in: "-5m" is not a duration'
    fails 2 tend add --in 5parsecs
    says "not a duration"
    fails 2 tend add --at yesterday
    says '--at: "yesterday" is not a time'
    fails 2 tend add -p 10
    says 'not a whole number from 0 to 9'
    fails 2 tend add -p x
    says 'not a whole number'
    fails 2 tend add --max-attempts 0
    says '--max-attempts'
    fails 2 tend jobs -n 99999999999999999999
    says '"99999999999999999999" is not a whole number from 1 to 9223372036854775807'
    fails 2 tend --durability sometimes add
    says '"sometimes" is not one of full|normal'
    fails 2 tend jobs --state pendign
    says 'did you mean pending?'
    fails 2 tend schedule add x @daily --catch-up some
    says 'none|one|all'
    [ ! -e .tend ]
}

@test "with --json an error is one object on standard error" {
    run --separate-stderr -2 tend add --qeue x --json
    [ -z "$output" ]
    output=$stderr
    json '.error.code == "EINVAL" and .error.exit == 2'
    json '.error.message | contains("did you mean --queue?")'
    run --separate-stderr -3 tend --json show 1
    output=$stderr
    json '.error.code == "ENOTFOUND" and .error.exit == 3'
}

@test "the version is printed" {
    run -0 tend version
    [[ "$output" =~ ^tend\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    version=$output
    run -0 tend --version
    [ "$output" = "$version" ]
    run -0 tend version --json
    json '.version'
}

@test "the manual page has the tables as the program prints them" {
    page=$TEND_SOURCE/docs/man/tend.1.scd
    sed -n '/^; tables: begin/,/^; tables: end/p' "$page" | sed '1d;$d' >in_page
    tend help --man >in_program
    diff in_page in_program
    for page in "$TEND_SOURCE"/docs/man/*.scd; do
        scdoc <"$page" >rendered
        run ! grep "[A-Z]__[A-Z]" rendered # a name that was taken for emphasis
    done
}

@test "completion answers from the tables" {
    run -0 tend __complete ''
    [[ "$output" == *$'jobs\tlist jobs'* ]]
    [[ "$output" != *__complete* ]]
    run -0 tend __complete lock ''
    [[ "$output" == *$'acquire\t'* ]]
    run -0 tend __complete add --
    [[ "$output" == *$'--queue\t'* && "$output" == *$'--store\t'* ]]
    run -0 tend __complete queue set mail --
    [[ "$output" == *$'--key-concurrency\t'* ]]
    run -0 tend __complete jobs --state ''
    [[ "$output" == *$'cancelled\t'* ]]
    run -0 tend __complete add --payload ''
    [ "$output" = :files ]
    run -0 tend __complete control ''
    [ -z "$output" ]
    run -0 tend __complete control 12 ''
    [[ "$output" == *$'hard_reset_step\t'* ]]
    run -0 tend __complete control 12 pause ''
    [ -z "$output" ]
    run -0 tend __complete run ''
    [ "$output" = :files ]
    run -0 tend __complete completion ''
    [[ "$output" == *$'zsh\t'* ]]
}

@test "completion knows the queues of the store, and makes none" {
    run -0 tend __complete jobs --queue ''
    [ -z "$output" ]
    [ ! -e .tend ]
    tend add -q crawl >/dev/null
    run -0 tend __complete jobs --queue ''
    [ "$output" = $'crawl\tqueue' ]
}

@test "the bash script completes commands, options and values" {
    PATH=$(dirname "$TEND"):$PATH
    # shellcheck disable=SC1090
    source <(tend completion bash)
    COMP_WORDS=(tend heart) COMP_CWORD=1
    _tend
    [ "${COMPREPLY[*]}" = heartbeat ]
    COMP_WORDS=(tend add --uni) COMP_CWORD=2
    _tend
    [ "${COMPREPLY[*]}" = --unique ]
    COMP_WORDS=(tend jobs --state ca) COMP_CWORD=3
    _tend
    [ "${COMPREPLY[*]}" = cancelled ]
}

# zsh_completes SETUP: what the beginnings of lines become, typed into a zsh set up so
zsh_completes() {
    PATH=$(dirname "$TEND"):$PATH timeout 60 zsh -f "$TEND_SOURCE/tests/cli/type.zsh" typed "$1" \
        'tend heartb' 'tend add --uni' 'tend jobs --state canc' 'tend jobs --queue cra' 'tend run flo'
    sed 's/ $//' typed | diff - expected
}

@test "the zsh script completes commands, options, values, queues and files" {
    tend add -q crawl >/dev/null
    touch flow.yaml
    printf '%s\n' ready 'tend heartbeat' 'tend add --unique' 'tend jobs --state cancelled' \
        'tend jobs --queue crawl' 'tend run flow.yaml' >expected
    zsh_completes 'autoload -Uz compinit; compinit -u -D; source <(tend completion zsh)'
    # As a file that zsh loads by itself, which must complete at the first time, too.
    mkdir functions
    tend completion zsh >functions/_tend
    zsh_completes 'fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D'
}

@test "the fish script completes commands, options, values, queues and files" {
    tend add -q crawl >/dev/null
    touch flow.yaml
    completes() {
        run -0 env PATH="$(dirname "$TEND"):$PATH" HOME="$PWD" \
            fish --no-config -c "tend completion fish | source; complete -C '$1'"
        [ "$(cut -f 1 <<<"$output")" = "$2" ] || { echo "$1: $output"; return 1; }
    }
    completes 'tend heartb' heartbeat
    completes 'tend add --uni' --unique
    completes 'tend jobs --state canc' cancelled
    completes 'tend jobs --queue cra' crawl
    completes 'tend run flo' flow.yaml
}

@test "there are scripts for three shells and no other" {
    for shell in bash zsh fish; do
        run -0 tend completion "$shell"
        [[ "$output" == *"tend __complete"* ]]
    done
    fails 2 tend completion tcsh
    says "bash, zsh, fish"
}
