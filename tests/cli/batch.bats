# tend add --batch: many jobs from JSON lines.
load helper

@test "a job for each line, ids in order" {
    printf '{"kind":"a"}\n\n{"kind":"b","payload":{"x":[1,"}"]}}\n{}' >jobs.jsonl
    run -0 --separate-stderr tend add -q crawl --batch jobs.jsonl
    [ "$output" = $'1\n2\n3' ]
    run -0 tend jobs --oldest --json
    [ "$(jq -c '[.queue, .kind, .payload]' <<<"$output")" = '["crawl","a",{}]
["crawl","b",{"x":[1,"}"]}]
["crawl","",{}]' ]
}

@test "every member reaches the job" {
    cat >jobs.jsonl <<'END'
{"queue":"q\u0031","kind":"k","priority":1,"unique":"u","subject":"s","key":"c","tags":["t"],"workspace":"/w","by":"me","max_attempts":7,"max_crashes":4,"backoff":"1s","backoff_max":"1m","lease":"2m","in":"1h"}
{"delay_ms":0,"unique_key":"u2","concurrency_key":"c2","backoff_ms":1,"backoff_max_ms":2,"lease_ms":1000,"kind":null}
{"at":"2199-01-01","payload":null}
{"due_at_ms":7226582400000}
END
    tend add --batch - <jobs.jsonl >/dev/null
    run -0 tend show 1 --json
    json '.job | [.queue, .kind, .priority, .unique_key, .subject, .concurrency_key, .workspace, .changed_by]
          == ["q1", "k", 1, "u", "s", "c", "/w", "me"]'
    json '.job | [.max_attempts, .max_crashes, .backoff_ms, .backoff_max_ms, .lease_ms, .tags]
          == [7, 4, 1000, 60000, 120000, ["t"]]'
    json '.job.state == "scheduled"'
    run -0 tend show 2 --json
    json '.job | [.unique_key, .concurrency_key, .backoff_ms, .backoff_max_ms, .lease_ms, .state]
          == ["u2", "c2", 1, 2, 1000, "pending"]'
    run -0 tend jobs --oldest --json --state scheduled
    [ "$(jq -c '[.id, .due_at_ms, .payload]' <<<"$output" | tail -n 2)" = '[3,7226582400000,null]
[4,7226582400000,{}]' ]
}

@test "payloads are kept byte for byte" {
    echo '{"payload": {"b":1,  "a":1.50, "n":12345678901234567890, "b":2}}' | tend add --batch - >/dev/null
    run -0 tend jobs --oldest --json
    [[ "$output" == *'"payload":{"b":1,  "a":1.50, "n":12345678901234567890, "b":2}'* ]]
}

@test "more lines than one transaction holds" {
    seq 2500 | sed 's/.*/{"payload":&}/' >jobs.jsonl
    tend add --batch jobs.jsonl >ids
    [ "$(wc -l <ids)" = 2500 ]
    [ "$(tend stats --json | jq .jobs.pending)" = 2500 ]
    [ "$(tend jobs --json | jq -s 'map(.id == .payload) | all')" = true ]
}

# bad_lines FUNCTION: calls it with each bad line and what is said of it
bad_lines() {
    for case in '{"kind":}|column 9' '{"kind" "x"}|column 9' '[1]|column 1: a job is an object' \
        '{"knid":"x"}|did you mean "kind"?' '{"priority":12}|0 to 9' '{"priority":"1"}|whole number' \
        '{"in":"-5m"}|not a duration' '{"at":"soon"}|not a time' '{"tags":"x"}|array' '{"tags":[1]}|a tag is text' \
        '{"queue":7}|queue: text in double quotes' '{"kind":"a\u0000b"}|u0000' \
        '{"lease_ms":1.5}|whole number' '{"ünïcode": 1}|column 2' \
        '{"payload":{"steps":[{"rum":"x"}]}}|column 12: payload: steps[0].rum: there is no such member; did you mean "run"?' \
        '{"kind":"http","payload":{"http":{"url":"ftp://x"}}}|http.url' \
        '{"queue":""}|column 10: '"'' cannot name a queue" "{\"kind\":\"$(printf 'x%.0s' {1..300})\"}|column 9: 'xx" \
        '{"max_attempts":0}|column 17: the number of attempts is 0; it must be a number from 1 to 1000000' \
        '{"lease":"1ms"}|column 10: the lease is 1ms; it must be a duration from 100ms to 366d' \
        '{"delay_ms":-1}|column 13: the delay is -1ms; it must be a duration from 0s' \
        '{"at":"now","in":"1h"}|column 18: "in" and "at" exclude each other; give one' \
        '{"in":"1h","delay_ms":5}|column 23: delay_ms: the line says this with "in" already; give one' \
        '{"unique_key":"a","unique":"b"}|column 28: unique: the line says this with "unique_key" already; give one' \
        '{"queue":"a","kind":"x","queue":"b"}|column 33: queue: the line has this member twice; give it once' \
        '{"payload":1,"payload":null}|column 24: payload: the line has this member twice; give it once' \
        '{"delay_ms":5,"due_at_ms":7}|column 13: "delay_ms" and "due_at_ms" exclude each other; give one' \
        '{"subject":"s"}|column 12: "subject" says what a key stands for; give "unique" too' \
        '{"if_running":"keep"}|column 15: "if_running" is about a job with a key; give "unique" too' \
        '{"payload":{"steps":[]}}|column 12: payload: steps: there is nothing to do'; do
        rm -rf .tend
        "$1" "${case%%|*}" "${case#*|}"
    done
}

refused_in_a_file() {
    printf '{}\n{}\n%s\n{}\n' "$1" >jobs.jsonl
    fails 2 tend add --batch jobs.jsonl
    says "nothing was added: jobs.jsonl, line 3, "
    says "$2"
    [ ! -e .tend ]
    fails 2 tend add --batch - <jobs.jsonl
    says "nothing was added: standard input, line 3, "
}

refused_in_a_pipe() {
    run --separate-stderr -2 tend add --batch <(printf '{}\n{}\n%s\n{}\n' "$1")
    [ "$output" = $'1\n2' ] || { echo "$1: $output"; false; }
    says "line 3, "
    says "$2"
    says "the lines before it were added"
    [ "$(tend stats --json | jq .jobs.pending)" = 2 ]
}

@test "a bad line in a file is named, and nothing is added" {
    bad_lines refused_in_a_file
}

@test "a bad line in a pipe is named; the lines before it were added" {
    bad_lines refused_in_a_pipe
}

@test "the jobs before a bad line are counted" {
    run --separate-stderr -2 tend add --batch <(printf '{}\nx\n')
    says "the lines before it were added (1 job):"
}

# Symptom: "the lines before it were added", of the first line.
@test "a bad first line of a pipe has none before it" {
    run --separate-stderr -2 tend add --batch <(printf '\n{"lease":"1ms"}\n{}\n')
    [ -z "$output" ]
    says "add: nothing was added: /dev/fd/"
    says ", line 2, column 10: the lease is 1ms"
}

# Symptom: 1500 jobs were added, then the line was named.
@test "a bad line far down in a file is found before the first is added" {
    { seq 1500 | sed 's/.*/{}/'; echo '{"max_attempts":0}'; } >jobs.jsonl
    fails 2 tend add --batch jobs.jsonl
    says "nothing was added: jobs.jsonl, line 1501, column 17"
    [ ! -e .tend ]
}

# Symptom: with --at the line's "in" was ignored.
@test "what a line says about its time replaces what the options say" {
    echo '{"in":"1h"}' >in.jsonl
    echo '{"at":"2199-01-01"}' >at.jsonl
    echo '{"in":"0s"}' >now.jsonl
    tend add --batch in.jsonl --at now >/dev/null
    tend add --batch in.jsonl --in 5h >/dev/null
    tend add --batch at.jsonl --in 5h >/dev/null
    tend add --batch at.jsonl --at now >/dev/null
    tend add --batch now.jsonl --at 2199-01-01 >/dev/null
    echo '{"in":null}' | tend add --batch - --at 2199-01-01 >/dev/null
    run -0 tend jobs --oldest --json
    [ "$(jq -c '[.state, if .due_at_ms == 7226582400000 then "at" else (.due_at_ms - .created_at_ms) / 3600000 end]' \
        <<<"$output" | tr '\n' ' ')" = \
        '["scheduled",1] ["scheduled",1] ["scheduled","at"] ["scheduled","at"] ["pending",0] ["scheduled","at"] ' ]
}

@test "a key from the options serves the lines" {
    printf '{"subject":"a"}\n{"if_running":"keep","subject":"a"}\n' >jobs.jsonl
    run -0 --separate-stderr tend add --batch jobs.jsonl --unique k
    [ "$output" = $'1\n1' ]
    # An option that only a key gives a meaning is for the lines that have one.
    run -0 tend add --batch - --if-running keep <<<'{}'
}

@test "a folder is refused like a file that is not there" {
    fails 2 tend add --batch /
    says "add: --batch: cannot read /: it is a folder"
    fails 2 tend add --batch - </
    says "add: --batch: cannot read standard input: it is a folder"
    fails 2 tend add --payload @/
    says "add: --payload: cannot read /: it is a folder"
}

@test "plans get the kind of their first step, as one by one" {
    printf '%s\n' '{"payload":{"run":"x"}}' '{"payload":{"http":{"url":"http://x/"}}}' '{"kind":"mine","payload":{"run":5}}' \
        '{"payload":{"a":1}}' '{}' >jobs.jsonl
    tend add --batch jobs.jsonl --payload '{"sleep": "1s"}' >/dev/null
    [ "$(tend jobs --oldest --json | jq -r .kind | tr '\n' ' ')" = 'shell http mine  sleep ' ]
    fails 2 tend add --batch jobs.jsonl --payload '{"sleep": 1}'
    says "--payload: sleep"
}

@test "a file that is not there is refused before a store is made" {
    fails 2 tend add --batch missing.jsonl
    says "missing.jsonl"
    [ ! -e .tend ]
}

@test "an empty file adds nothing" {
    run -0 --separate-stderr tend add --batch /dev/null
    [ -z "$output" ]
}

@test "keys that are taken are passed over, exit status 4" {
    printf '%s\n' '{"unique":"k","subject":"a"}' '{"unique":"k","subject":"b"}' '{"unique":"k","subject":"a"}' '{}' >jobs.jsonl
    run --separate-stderr -4 tend add --batch jobs.jsonl
    [ "${#lines[@]}" = 3 ]
    [ "${lines[0]} ${lines[1]}" = '1 1' ]
    [[ "$stderr" == *'line 2: not added: its key "k" is taken by job 1'* ]]
    rm -rf .tend
    run --separate-stderr -4 tend add --batch jobs.jsonl --json
    [ "$(jq -c '[.line, .id == 1, .outcome]' <<<"$output")" = '[1,true,"added"]
[2,true,"conflict"]
[3,true,"refreshed"]
[4,false,"added"]' ]
}

@test "a slow producer is answered while it goes on" {
    mkfifo jobs
    "$TEND" add --batch jobs >ids 3>&- &
    exec 9>jobs
    echo '{}' >&9
    until_true test -s ids
    echo '{}' >&9
    exec 9>&-
    wait $!
    [ "$(cat ids)" = $'1\n2' ]
}

@test "memory does not grow with the input" {
    # The sanitizers have tables of their own.
    if grep -q __asan_init "$TEND"; then return; fi
    mkfifo jobs
    "$TEND" add --durability normal --batch jobs >ids 3>&- &
    exec 9>jobs
    line="{\"payload\":\"$(printf 'x%.0s' {1..1000})\"}"
    yes "$line" | head -n 60000 >&9
    until_true grep -qx 60000 ids
    kilobytes=$(awk '/VmHWM/ { print $2 }' /proc/$!/status)
    exec 9>&-
    wait $!
    [ "$kilobytes" -lt 40000 ]
}
