# tend add: one job.
load helper

@test "add prints the id and makes the store on first use" {
    [ ! -e .tend ]
    run -0 tend add
    [ "$output" = 1 ]
    [ -f .tend/tend.db ]
    run -0 tend add
    [ "$output" = 2 ]
}

@test "with --json the outcome is told" {
    run -0 tend add --json
    json '. == {"id": 1, "outcome": "added"}'
}

@test "every option reaches the job" {
    tend add -q mail -k welcome -p 2 --unique ann --subject v1 --key ann@x --tag a --tag 'b "c"' \
        --workspace /srv --max-attempts 7 --max-crashes 4 --backoff 1s --backoff-max 1m --lease 2m \
        --payload '{"to":  "ann",
 "n": 12345678901234567890}' >/dev/null
    run -0 tend show 1 --json
    json '.job | [.queue, .kind, .priority, .unique_key, .subject, .concurrency_key, .workspace]
          == ["mail", "welcome", 2, "ann", "v1", "ann@x", "/srv"]'
    json '.job.tags == ["a", "b \"c\""]'
    json '.job | [.max_attempts, .max_crashes, .backoff_ms, .backoff_max_ms, .lease_ms]
          == [7, 4, 1000, 60000, 120000]'
    # Digits no number type holds are kept, since nobody reads them as a number.
    [[ "$output" == *'"n": 12345678901234567890'* ]]
    json '.job.state == "pending"'
}

@test "a payload comes from the command line, a file or standard input" {
    echo '[1, 2]' >payload.json
    tend add --payload @payload.json >/dev/null
    echo '"text"' | tend add --payload - >/dev/null
    tend add --payload null >/dev/null
    run -0 tend jobs --json
    [ "$(jq -c .payload <<<"$output")" = $'[1,2]\n"text"\nnull' ]
}

@test "a broken payload is refused with line and column, and no store is made" {
    fails 2 tend add --payload '{"a": }'
    says "line 1, column 7: a value is expected here"
    printf '{\n "a": 1\n "b": 2}' >payload.json
    fails 2 tend add --payload @payload.json
    says "payload.json is not JSON: line 3, column 2"
    fails 2 tend add --payload @missing.json
    says "missing.json"
    [ ! -e .tend ]
}

@test "a command becomes a job with a plan" {
    tend add -q build -- make -j2 'say "hi"' >/dev/null
    run -0 tend show 1 --json
    json '.job.kind == "shell" and .job.payload == {"exec": ["make", "-j2", "say \"hi\""]}'
}

@test "a command without -- is refused: it could be a slip" {
    fails 2 tend add make report
    says 'tend add -- make'
    [ ! -e .tend ]
}

@test "nothing behind -- is refused: a variable may have been empty" {
    fails 2 tend add --
    says 'add: a command is missing behind --'
    fails 2 tend add --payload '{"run": "x"}' --
    [ ! -e .tend ]
}

@test "what excludes each other is refused" {
    fails 2 tend add --in 5m --at now
    fails 2 tend add --payload '{}' -- make
    fails 2 tend add --batch - -- make
    fails 2 tend add --subject x
    fails 2 tend add --payload - --batch - <<<'{}'
    [ ! -e .tend ]
}

@test "a job of later is scheduled" {
    tend add --in 1h >/dev/null
    tend add --at 2199-01-01 >/dev/null
    tend add --at 2001-01-01 >/dev/null
    [ "$(tend jobs --json | jq -r .state)" = $'scheduled\nscheduled\npending' ]
}

# CL-7
@test "one live job per key: the same subject refreshes, another is refused with the id" {
    tend add --unique k --subject v1 >/dev/null
    run -0 tend add --unique k --subject v1 --json
    json '. == {"id": 1, "outcome": "refreshed"}'
    fails 4 tend add --unique k --subject v2
    says "job 1"
    run --separate-stderr -4 tend add --unique k --subject v2 --json
    output=$stderr
    json '.error.code == "ECONFLICT" and .error.id == 1 and .error.exit == 4'
    claim
    tend complete "$lease" >/dev/null
    run -0 tend add --unique k --subject v2 --json
    json '.outcome == "added" and .id > 1'
}

@test "bad names are refused by one sentence" {
    fails 2 tend add -q ''
    fails 2 tend add -q $'a\nb'
    fails 2 tend add --tag $'t\xff'
    fails 2 tend add -k $'k\xff'
    fails 2 tend add -- echo $'\xff'
    fails 2 tend add -q "$(printf 'x%.0s' {1..300})"
}
