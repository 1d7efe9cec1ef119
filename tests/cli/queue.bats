# Queues, workers and schedules.
load helper

@test "a queue's settings are set, shown and taken back" {
    run -0 tend queue set mail --concurrency 4 --key-concurrency 2 --rate 20/60s --serial on --lease 2m \
        --max-attempts 5 --max-crashes 2 --backoff 1s --backoff-max 10m --keep-done 1d --keep-failed 30d --json
    json '.name == "mail" and .concurrency == 4 and .key_concurrency == 2 and .rate == "20/1m" and .serial'
    json '[.lease_ms, .max_attempts, .max_crashes, .backoff_ms, .backoff_max_ms, .keep_done_ms, .keep_failed_ms]
          == [120000, 5, 2, 1000, 600000, 86400000, 2592000000]'
    run -0 tend queue show mail
    [[ "$output" == *"rate                     20/1m"* ]]
    run -0 tend queue set mail --concurrency none --rate none --lease default --json
    json '.concurrency == null and .rate == null and .lease_ms == 60000 and .max_attempts == 5'
}

@test "SH-17: a queue's budgets for steps are set, shown and taken back" {
    run -0 tend queue set mail --lease 1m --json
    json '.step_max_attempts == null and .step_grace_ms == null'
    run -0 tend queue set mail --step-max-attempts 5 --step-timeout 20m --step-idle-timeout none \
        --step-no-progress-limit 4 --job-self-heal-max-resets 0 --step-grace 3s --json
    json '[.step_max_attempts, .step_timeout_ms, .step_idle_timeout_ms, .step_no_progress_limit,
           .job_self_heal_max_resets, .step_grace_ms] == [5, 1200000, 0, 4, 0, 3000]'
    run -0 tend queue show mail
    [[ "$output" == *"step-timeout             20m"* ]]
    [[ "$output" == *"step-pause               1s (default)"* ]]
    run -2 tend queue set mail --step-max-attempts 1001
    [[ "$output" == *"step-max-attempts"*"1 to 1000"* ]]
    run -0 tend queue set mail --step-timeout default --json
    json '.step_timeout_ms == null and .step_max_attempts == 5'
}

@test "pause with a reason, and go on" {
    run -0 tend queue set mail --paused on --why 'provider is down' --json
    json '.paused and .paused_why == "provider is down"'
    run -0 tend queues
    [[ "$output" == *"paused: provider is down"* ]]
    run -0 tend queue set mail --paused off --json
    json '(.paused | not) and .paused_why == null'
    fails 2 tend queue set mail --why 'provider is down'
    says 'queue "mail" is not paused'
}

@test "a bad setting is refused with its name, and nothing is changed" {
    tend queue set mail --concurrency 4 >/dev/null
    for setting in 'concurrency 0' 'concurrency x' 'key-concurrency -1' 'rate 20' 'rate 0/5s' 'paused maybe' \
        'serial 2' 'lease -5s' 'lease x' 'max-attempts 0' 'backoff 1y' 'keep-done -1d'; do
        # shellcheck disable=SC2086
        fails 2 tend queue set mail --max-crashes 9 --$setting
        says "${setting%% *}"
    done
    fails 2 tend queue set mail --rate 9999999999/1s
    says "rate cannot be '9999999999/1s'; it must be a number from 1 to 1000000000 per time, such as 20/60s, or none"
    fails 2 tend queue set mail --lease 367d
    says "lease cannot be '367d'; it must be a duration from 100ms to 366d"
    run -0 tend queue show mail --json
    json '.concurrency == 4 and .max_crashes == 3'
    fails 2 tend queue set mail
    says "no setting"
}

# Symptom: a queue that is not there could not be told from one that is.
@test "a queue without settings is shown with the defaults; one without jobs, too, is not there" {
    tend add -q other >/dev/null
    run -0 tend queue show other --json
    json '.exists and .lease_ms == 60000 and .max_attempts == 3 and .jobs.pending == 1'
    run -0 tend queue show other
    [[ "$output" == *"all settings by default"* ]]
    run -3 --separate-stderr tend queue show none --json
    json '(.exists | not) and .lease_ms == 60000'
    output=$stderr
    json '.error.code == "ENOTFOUND" and .error.exit == 3'
    run -3 --separate-stderr tend queue show othre
    [ "$stderr" = 'tend: queue show: there is no queue "othre"; did you mean "other"?' ]
}

@test "queues lists what is in them" {
    tend add -q a >/dev/null
    tend add -q b --in 1h >/dev/null
    tend queue set c --serial on >/dev/null
    run -0 tend queues
    [[ "${lines[1]}" == a* && "${lines[2]}" == b* && "${lines[3]}" == c*serial ]]
    run -0 tend queues --json
    [ "$(jq -c '[.name, .jobs.pending, .jobs.scheduled]' <<<"$output" | tr '\n' ' ')" = \
        '["a",1,0] ["b",0,1] ["c",0,0] ' ]
}

@test "workers lists those registered" {
    tend add >/dev/null
    run -0 tend workers --json
    [ -z "$output" ]
    claim -w me --while-pid $$
    run -0 tend workers --json
    json ".pid == $$ and .alive and (.stopped | not) and .leases == 1 and .locks == 0"
    run -0 tend workers
    [[ "${lines[1]}" == *$$*yes* ]]
}

@test "schedules are added, listed, paused, resumed and removed" {
    run -0 --separate-stderr tend schedule add report '15 3 * * 1-5' -q night -k report -p 7 --payload '{"for":"all"}' --catch-up all
    [[ "$output" == 'schedule "report" runs next at '*'T03:15:00.000Z (in '* ]]
    run -0 tend schedule ls --json
    json '.name == "report" and .cron == "15 3 * * 1-5" and .queue == "night" and .kind == "report" and .priority == 7
          and .catch_up == "all" and .payload.for == "all" and (.paused | not) and .next_at_ms > 0 and .last_at_ms == null'
    run -0 tend schedule pause report
    [ "$output" = 'schedule "report" is paused' ]
    run -0 tend schedule ls
    [[ "${lines[1]}" == report*paused* ]]
    run -0 tend schedule resume report --json
    json '.paused | not'
    json '.payload.for == "all" and .priority == 7 and .catch_up == "all"'
    run -0 tend schedule rm report
    [ "$output" = 'schedule "report" removed' ]
    run -0 tend schedule ls --json
    [ -z "$output" ]
}

# With --json a replaced schedule looked like a new one, and a removed one as if it were there.
@test "a schedule that was replaced or removed says so with --json" {
    run -0 tend schedule add report @daily --json
    json '.replaced == false'
    run -0 tend schedule add report @hourly --json
    json '.replaced == true and .cron == "@hourly"'
    run -0 tend schedule ls --json
    json 'has("replaced") == false and has("removed") == false'
    run -0 tend schedule rm report --json
    json '.removed == true and .name == "report"'
}

@test "several schedules are removed at once; one that is not there is said" {
    for name in a b c; do
        tend schedule add "$name" @daily >/dev/null
    done
    run -3 --separate-stderr tend schedule rm a nosuch c
    [ "$output" = $'schedule "a" removed\nschedule "c" removed' ]
    [[ "$stderr" == *'there is no schedule "nosuch"'* ]]
    [ "$(tend schedule ls --json | jq -r .name)" = b ]
}

# BY-8: pausing added the runs that were due; putting it again resumed it without a word.
@test "a paused schedule stays paused when it is put again, and says so" {
    tend schedule add tick '@every 1s' >/dev/null
    tend schedule pause tick >/dev/null
    next=$(tend schedule ls --json | jq .next_at_ms)
    until_true bash -c "((\$(date +%s%3N) > $next))"
    run --separate-stderr -0 tend schedule add tick '@every 1s'
    [ "$output" = "schedule \"tick\" is still paused; 'tend schedule resume tick' resumes it" ]
    [ "$stderr" = 'tend: schedule add: replaced the schedule "tick" that was there' ]
    run -0 tend schedule add tick '@every 1s' --json
    json '.paused and .replaced and (.note | contains("tend schedule resume tick"))'
    run -5 tend claim
    run -0 tend schedule resume tick
    [[ "$output" == 'schedule "tick" has been due since '*'); the next claim catches up (catch-up one)' ]]
    run -0 tend claim --json
    json '.schedule == "tick"'
    run -0 tend schedule add tick '@every 1s' --json
    json '.paused == false and has("note") == false'
    fails 3 tend schedule pause tock
    says 'there is no schedule "tock"; did you mean "tick"?'
}

@test "a schedule takes its five fields also as words" {
    tend schedule add x 0 12 1 jan '*' >/dev/null
    [ "$(tend schedule ls --json | jq -r .cron)" = '0 12 1 jan *' ]
}

@test "a schedule adds its jobs" {
    tend schedule add tick '@every 1s' -k tick >/dev/null
    run -0 tend claim --wait 10s
    json '.kind == "tick" and .schedule == "tick"'
}

# BY-8
@test "a schedule goes by the clocks of a zone, and says its next run there" {
    run -0 --separate-stderr tend schedule add berlin '15 3 * * *' --timezone Europe/Berlin --overlap skip
    [[ "$output" == 'schedule "berlin" runs next at '*T03:15:00+0[12]:00' (in '* ]]
    run -0 tend schedule ls --json
    json '.timezone == "Europe/Berlin" and .overlap == "skip" and (.next_local | test("T03:15:00[+]0[12]:00$"))'
    run -0 tend schedule ls
    [[ "${lines[0]}" == *TIMEZONE*OVERLAP*NEXT*AT* ]]
    [[ "${lines[1]}" == *Europe/Berlin*skip*T03:15:00+0* ]]
    tend schedule pause berlin >/dev/null
    run -0 tend schedule resume berlin --json
    json '.timezone == "Europe/Berlin" and .overlap == "skip"'
    fails 2 tend schedule add x @daily --timezone Europe/Berln
    says "'Europe/Berln' is not a time zone of this machine (/usr/share/zoneinfo); did you mean Europe/Berlin?"
    fails 2 tend schedule add x @daily --overlap wait
}

@test "a schedule takes a command" {
    tend schedule add nightly '15 3 * * *' -q night -- make -k report >/dev/null
    run -0 tend schedule ls --json
    json '.payload == {"exec": ["make", "-k", "report"]} and .kind == "shell" and .cron == "15 3 * * *" and .queue == "night"'
    tend schedule add nightly 15 3 '*' '*' 1 -- true >/dev/null
    run -0 tend schedule ls --json
    json '.payload == {"exec": ["true"]} and .cron == "15 3 * * 1"'
    fails 2 tend schedule add x @daily --payload '{}' -- true
    says 'a command makes the payload itself'
    fails 2 tend schedule add x @daily --
    says 'a command is missing after --'
    fails 2 tend schedule add x -- true
    says 'an argument is missing'
    fails 2 tend schedule add x @daily -- ''
    says 'schedule add: the command: '
}

@test "a schedule's plan is checked, and gives its jobs their kind" {
    fails 2 tend schedule add x @daily --payload '{"steps": [{"run": "x"}, {"rum": "y"}]}'
    says 'schedule add: --payload: steps[1].rum: there is no such member; did you mean "run"?'
    [ ! -e .tend ]
    tend schedule add x @daily --payload '{"http": {"url": "http://x/"}}' >/dev/null
    tend schedule add y @daily -k mine --payload '{"run": 5}' >/dev/null
    [ "$(tend schedule ls --json | jq -r .kind | tr '\n' ' ')" = 'http mine ' ]
}

@test "bad schedules are refused with what is wrong" {
    tend migrate >/dev/null 2>&1
    fails 2 tend schedule add x '61 * * * *'
    says "minute"
    fails 2 tend schedule add x daily
    fails 2 tend schedule add x '@every -5s'
    fails 2 tend schedule add x @daily --payload '{'
    # What the shell makes of 15 3 * * *, with one file in the folder and with two.
    fails 2 tend schedule add x 15 3 a a a
    says "quote the five fields"
    fails 2 tend schedule add x 15 3 a b a b a b
    says 'unexpected argument "b"; quote the five fields'
    tend schedule add report @daily >/dev/null
    fails 3 tend schedule rm reprot
    says 'did you mean "report"?'
    fails 3 tend schedule pause other
    says 'tend schedule ls'
}

# A misspelt name was answered as an empty queue.
@test "a queue that nobody has used is noted, and its likely name" {
    tend add -q mail >/dev/null
    for call in 'jobs -q mial' 'hold -q mial' 'hold -q mial --dry-run'; do
        # shellcheck disable=SC2086
        run --separate-stderr -0 tend $call
        [ "$stderr" = 'tend: there is no queue "mial"; did you mean "mail"?' ]
    done
    for call in 'queue show mail' 'jobs -q mail -s held' 'resume -q mail' 'queue set new --lease 5s' 'queue show new'; do
        # shellcheck disable=SC2086
        run --separate-stderr -0 tend $call
        [ -z "$stderr" ]
    done
    for call in 'jobs -q mial --json' 'cancel -q mial --json'; do
        # shellcheck disable=SC2086
        run --separate-stderr -0 tend $call
        [ "$(jq -r .note <<<"$stderr")" = 'there is no queue "mial"; did you mean "mail"?' ]
    done
    fails 5 tend claim -q mial
    says 'claim: there is no queue "mial"; did you mean "mail"?'
    fails 5 tend claim -q other
    says "claim: there is no queue \"other\"; 'tend queues' lists them"
}

# "schedule.put        , by ann"
@test "an event of no job has no stray comma" {
    tend schedule add tick @daily >/dev/null
    run -0 tend events
    [[ "${lines[0]}" == *' schedule.put '*' by '* ]]
    [[ "${lines[0]}" != *,* ]]
}
