# SH-15: what people give on the command line is stored without secrets.
load helper
load running

TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyz

# stored TEXT: some file of the store has it
stored() {
    grep -rqF -- "$1" .tend
}

# The text of 'tend fail' went into the error, the event and the job of a hook as it was given.
@test "SH-15: the text of a failure has no secret, nor has what a hook is told of it" {
    tend notify add ops --on failed --into alerts -- true >/dev/null
    tend add -q q >/dev/null
    claim -q q
    export MY_TOKEN=plain-words-of-mine
    run --separate-stderr -0 tend fail "$lease" --final --text "token $TOKEN and plain-words-of-mine"
    [[ "$stderr" == 'tend: fail: --text holds what looks like a secret: [redacted] is stored in its place' ]]
    [ "$(tend show "$id" --json | jq -r .job.error_text)" = 'token [redacted] and [redacted]' ]
    run -0 tend jobs -q alerts --json
    json '.payload.notify.text == "token [redacted] and [redacted]"'
    run -0 tend show "$id"
    [[ "$output" != *ghp_* ]]
    run -1 stored "$TOKEN"
    run -1 stored plain-words-of-mine
}

@test "SH-15: a result has no secret, and its bytes stay as they are where there is none" {
    tend add -q q >/dev/null
    claim -q q
    tend complete "$lease" --result "{\"n\": 1, \"token\": {\"value\": \"abcdef123456\"}, \"said\": [\"$TOKEN\"]}"
    run -0 tend wait "$id" --result
    json '. == {"n": 1, "token": {"value": "[redacted]"}, "said": ["[redacted]"]}'
    run -1 stored "$TOKEN"
    run -1 stored abcdef123456
    tend add -q q >/dev/null
    claim -q q
    run --separate-stderr -0 tend complete "$lease" --result '{"big":  123456789012345678901234567890, "x": 1.50}'
    [ -z "$stderr" ]
    stored '{"big":  123456789012345678901234567890, "x": 1.50}'
    tend add -q q >/dev/null
    claim -q q
    fails 2 tend complete "$lease" --result '[1e999]'
    says 'complete: --result: '
}

@test "SH-15: reasons have no secret" {
    tend add -q q --payload '{"run": "true"}' >/dev/null
    claim -q q
    tend release "$lease" --why "has $TOKEN"
    tend hold 1 --why "has $TOKEN"
    tend resume 1 --why "has $TOKEN"
    tend control 1 pause --reason "has $TOKEN"
    tend queue set q --paused on --why "has $TOKEN"
    tend queue set q --paused off
    tend control 1 resume --reason "has $TOKEN"
    claim -q q
    run -0 tend phase "$lease" "has $TOKEN"
    control=$(tend control 1 pause --json | jq -r .control_id)
    tend heartbeat "$lease" --done "$control" --outcome "has $TOKEN"
    tend cancel 1 --why "has $TOKEN"
    run -0 tend events --json
    [ "$(grep -cF 'has [redacted]' <<<"$output")" -ge 6 ]
    run -1 stored "$TOKEN"
}

# Only names that look secret were refused.
@test "SH-15: a variable is refused by what its value looks like, too" {
    while read -r variable; do
        fails 2 tend add --env "$variable" -- true
        says "add: --env ${variable%%=*}=… looks like a secret"
        says "give --env-from ${variable%%=*}"
        [[ "$stderr" != *"${variable#*=}"* ]]
    done <<END
FOO=$TOKEN
URL=postgres://u:s3cretpw99@h/db
DB=AKIAIOSFODNN7EXAMPLE
DATABASE_URL=postgres://u:pw@h/db
MY_PIN=4711
API_KEY=abc
END
    MY_TOKEN=plain-words-of-mine fails 2 tend add --env WORDS=plain-words-of-mine -- true
    [ ! -e .tend ]
    while read -r variable; do
        run -0 tend add --env "$variable" -- true
    done <<END
API_KEY=
CI=1
MAX_TOKENS=4096
SEED=42
PASSWORD_FILE=/run/secrets/x
USE_TOKEN=true
URL=https://example.org/x?a=b
LANG=de_DE.UTF-8
END
    TEND_REDACT_NOT='API_*' run -0 tend add --env API_KEY=abc -- true
}

@test "SH-15: a command with a secret in it is added with a warning" {
    run --separate-stderr -0 tend add -- curl -u bob:hunter22 https://example.org
    [[ "$stderr" == *'add: the command holds what looks like a secret, and is stored as it is'*'--env-from NAME'* ]]
    [[ "$stderr" != *hunter22* ]]
    run --separate-stderr -0 tend add -- make test
    [ -z "$stderr" ]
}

# Also in the files of the worker: those of attempts, and the context of a retry.
@test "SH-15: nothing below .tend has a value that the plan names, whoever prints it" {
    export LICENCE='plain words, commas'
    tend notify add --on failed -- sh -c 'echo hook: $TEND_NOTIFY_TEXT' >/dev/null
    tend notify add other --on failed --env-from LICENCE -- sh -c 'echo other: $LICENCE; exit 64' >/dev/null
    id=$(tend add --payload '{"steps": [
        {"run": "echo early $LICENCE; test -n \"$TEND_RETRY_CONTEXT\" && cat $TEND_RETRY_CONTEXT && exit 0; echo error: $LICENCE; exit 75"},
        {"run": "echo late $X; exit 64", "env": {"X": {"env": "LICENCE"}}}]}')
    tend work --drain >/dev/null
    [ "$(state_of "$id")" = failed ]
    run -0 tend logs "$id"
    [[ "$output" == *'early [redacted]'*'late [redacted]'* ]]
    run -0 tend show "$id"
    [[ "$output" != *'plain words'* ]]
    run -1 stored "$LICENCE"
}
