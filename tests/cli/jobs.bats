# Looking at jobs: jobs, show, explain, events, stats.
load helper

@test "jobs lists all, chosen by queue, state, kind, tag and age" {
    tend add -q mail -k welcome --tag a >/dev/null
    tend add -q mail -k bye >/dev/null
    tend add -q crawl --in 1h >/dev/null
    run -0 tend jobs
    [[ "${lines[0]}" == *ID*QUEUE*KIND*STATE*DETAILS* ]]
    [ "${#lines[@]}" = 4 ]
    [[ "${lines[1]}" =~ crawl.*scheduled.*"due in "(1h|59m) ]]
    ids() {
        tend jobs --oldest --json "$@" | jq .id | tr '\n' ' '
    }
    [ "$(ids)" = '1 2 3 ' ]
    [ "$(ids -q mail)" = '1 2 ' ]
    [ "$(ids -s scheduled)" = '3 ' ]
    [ "$(ids -s scheduled,pending)" = '1 2 3 ' ]
    [ "$(ids --state scheduled --state pending)" = '1 2 3 ' ]
    [ "$(ids -k bye)" = '2 ' ]
    [ "$(ids --tag a)" = '1 ' ]
    [ "$(ids --older-than 1h)" = '' ]
    [ "$(ids --older-than 0)" = '1 2 3 ' ]
    [ "$(ids --limit 2)" = '1 2 ' ]
}

# After a few hundred jobs the ones just added were far below the end of the screen.
@test "jobs lists the newest first, with --oldest the oldest" {
    printf '{}\n{}\n{}\n' | tend add --batch - >/dev/null
    [ "$(tend jobs --json | jq .id | tr '\n' ' ')" = '3 2 1 ' ]
    [ "$(tend jobs -n 2 --json | jq .id | tr '\n' ' ')" = '3 2 ' ]
    [ "$(tend jobs -n 2 --oldest --json | jq .id | tr '\n' ' ')" = '1 2 ' ]
    [ "$(tend jobs -n 2 | awk 'NR > 1 {print $1}' | tr '\n' ' ')" = '3 2 ' ]
}

@test "jobs streams pages without gap or repetition" {
    seq 2500 | sed 's/.*/{"payload":&}/' | tend add --batch - >/dev/null
    [ "$(tend jobs --json | jq .id | tr '\n' ' ')" = "$(seq -s ' ' 2500 -1 1) " ]
    [ "$(tend jobs --oldest --json | jq .id | tr '\n' ' ')" = "$(seq -s ' ' 2500) " ]
    [ "$(tend jobs | wc -l)" = 2501 ]
    [ "$(tend jobs --limit 1500 | wc -l)" = 1501 ]
}

@test "jobs ends quietly when its reader has gone" {
    seq 2500 | sed 's/.*/{"payload":&}/' | tend add --batch - >/dev/null
    run -0 bash -c '"$0" jobs --json | head -n 1' "$TEND"
    [ "${#lines[@]}" = 1 ]
}

@test "what takes no store or no job says so: exit status 3" {
    for command in jobs queues workers stats events doctor 'show 1' 'explain 1' 'cancel 1' heal 'lock ls' \
        'schedule ls' 'queue show x' 'complete 1:1'; do
        # shellcheck disable=SC2086
        fails 3 tend $command
        says "there is no store here"
    done
    [ ! -e .tend ]
    tend migrate >/dev/null
    for command in 'show 7' 'explain 7' 'cancel 7' 'retry 7' 'hold 7' 'resume 7' 'events --job 7' 'schedule rm x'; do
        # shellcheck disable=SC2086
        fails 3 tend $command
    done
}

@test "an id that is no number is bad usage" {
    tend migrate >/dev/null
    for id in x 1x -- '' 0 99999999999999999999; do
        fails 2 tend show -- "$id"
    done
    fails 2 tend cancel 1 two
    fails 2 tend events --job x
}

# Its length and its holder's lease were two rows of the same name.
@test "show names the length of a lease and the lease apart" {
    tend add --lease 5m >/dev/null
    claim
    run -0 tend show 1
    [[ "$output" == *"lease length 5m"*"lease        $lease"* ]]
}

@test "show tells everything about a job" {
    tend add -k welcome --payload '{"to":"ann","list":[1,{"a":[]}]}' --tag vip >/dev/null
    run -0 tend show 1
    [[ "${lines[0]}" == "job 1  pending" ]]
    [[ "$output" == *"kind         welcome"* ]]
    [[ "$output" == *'"to": "ann",'* ]]
    [[ "$output" == *'"a": []'* ]]
    [[ "$output" == *'job.added'* ]]
    claim -w me
    run -0 tend show 1
    [[ "$output" == *"owner        me"* && "$output" == *"lease        $lease"* ]]
    tend complete "$lease" --result '{"sent":true}' >/dev/null
    run -0 tend show 1
    [[ "$output" == *'"sent": true'* && "$output" == *job.completed* ]]
    run -0 tend show 1 --json
    json '[.events[].what] == ["job.added", "job.claimed", "job.completed"]'
    json '.job.payload.list[1].a == []'
}

@test "text from a job cannot play with the terminal" {
    tend add >/dev/null
    claim
    tend fail "$lease" --final --text $'red \e[31m\nalert' >/dev/null
    for command in 'show 1' jobs 'events'; do
        # shellcheck disable=SC2086
        run -0 tend $command
        [[ "$output" != *$'\e'* ]]
    done
    run -0 tend show 1 --json
    json '.job.error_text == "red \u001b[31m\nalert"'
}

# BY-1
@test "explain says why a job is not running, who holds it and what to do" {
    tend add >/dev/null
    run -0 tend explain 1
    [[ "$output" == "job 1 is pending. "* ]]
    run -0 tend explain 1 --json
    json '.waiting and .reason == "ready" and .ahead == 0 and (.text | contains("No worker is there"))'
    tend add --in 1h >/dev/null
    run -0 tend explain 2 --json
    json '.reason == "due_later" and .until_ms > 0'
    claim -w ann
    run -0 tend explain 1 --json
    json '.reason == "leased" and .by == "ann" and (.waiting | not)'
    tend complete "$lease" >/dev/null
    run -0 tend explain 1 --json
    json '.reason == "finished" and .state == "done"'
    third=$(tend add)
    tend queue set default --paused on >/dev/null
    run -0 tend explain "$third" --json
    json '.reason == "paused" and .hint != null and .by == null and has("why")'
    tend hold "$third" --why 'just so' >/dev/null
    run -0 tend explain "$third"
    [[ "$output" == *held*'just so'* ]]
}

@test "events are the last ones, those since a number, or a job's" {
    for _ in 1 2 3; do tend add >/dev/null; done
    claim
    tend complete "$lease" >/dev/null
    run -0 tend events
    [ "${#lines[@]}" = 5 ]
    [[ "${lines[4]}" == *job.completed*"job 1 in default, running -> done"* ]]
    run -0 tend events --limit 2
    [ "${#lines[@]}" = 2 ]
    run -0 tend events --since 2 --limit 2 --json
    [ "$(jq .id <<<"$output" | tr '\n' ' ')" = '3 4 ' ]
    run -0 tend events --job 1 --json
    [ "$(jq -r .what <<<"$output" | tr '\n' ' ')" = 'job.added job.claimed job.completed ' ]
    [ "$(jq -r '.to' <<<"$output" | tr '\n' ' ')" = 'pending running done ' ]
}

# They were counted down from the highest number, which a restore moves far up; and of a job the
# first ones were shown.
# Symptom: "there is no job 2", exit status 3, while 'tend events' showed what it had left.
@test "events of a job that was purged are shown as long as they are kept" {
    tend queue set default --keep-done 0s >/dev/null
    tend add >/dev/null
    claim
    tend complete "$lease" >/dev/null
    tend purge >/dev/null
    run -3 tend show "$id"
    run -0 tend events --job "$id"
    [ "${#lines[@]}" = 3 ]
    [[ "${lines[2]}" == *job.completed* ]]
    fails 3 tend events --job $((id + 1000))
    says "there is no job $((id + 1000))"
}

@test "events -n shows the last ones, whatever numbers are missing, also of a job" {
    for _ in 1 2 3; do tend add >/dev/null; done
    tend migrate --after-restore >/dev/null
    tend add >/dev/null
    run -0 tend events -n 3 --json
    [ "${#lines[@]}" = 3 ]
    claim
    tend start "$lease" >/dev/null
    tend complete "$lease" >/dev/null
    run -0 tend events --job 1 -n 2 --json
    [ "$(jq -r .what <<<"$output" | tr '\n' ' ')" = "$(tend events --job 1 --json | tail -n 2 | jq -r .what | tr '\n' ' ')" ]
    [ "$(tail -n 1 <<<"$output" | jq -r .what)" = job.completed ]
    run -0 tend events --job 1 --since 0 -n 1 --json
    json '.what == "job.added"'
}

@test "events -f goes on with what happens until interrupted" {
    tend add >/dev/null
    "$TEND" events -f --json >seen 3>&- &
    follower=$!
    until_true test -s seen
    tend add >/dev/null
    until_true grep -q '"job_id":2' seen
    kill -INT $follower 2>/dev/null || kill -TERM $follower
    status=0
    wait $follower || status=$?
    [ "$status" = 130 ] || [ "$status" = 143 ]
    [ "$(jq .id seen | tr '\n' ' ')" = '1 2 ' ]
}

# It stayed until the next event came, which nobody was there to read.
@test "events -f ends when its reader has gone" {
    tend add >/dev/null
    run -141 timeout 30 bash -c 'set -o pipefail; "$0" events -f --json | head -n 1' "$TEND"
    json '.what == "job.added"'
}

@test "events -f of one job" {
    tend add >/dev/null
    "$TEND" events -f --job 1 --json >seen 3>&- &
    follower=$!
    until_true test -s seen
    tend add >/dev/null
    tend cancel 1 >/dev/null
    until_true grep -q cancelled seen
    kill -TERM $follower
    wait $follower || [ $? = 143 ]
    [ "$(jq .job_id seen | sort -u)" = 1 ]
}

@test "stats counts the jobs" {
    tend add >/dev/null
    tend add --in 1h >/dev/null
    run -0 tend stats --json
    json '.jobs.pending == 1 and .jobs.scheduled == 1 and .jobs.done == 0 and .queues == 1 and .events == 2'
    json '.oldest_pending_ms > 0 and .now_ms >= .oldest_pending_ms'
    run -0 tend stats
    [[ "$output" == *"pending"*"1"* ]]
}

# With no worker there, PENDING was 0 and OLDEST "-" however long jobs had been due.
# Symptom: 2000000000 events.
@test "stats counts the events after a restore" {
    tend add >/dev/null
    tend migrate --after-restore >/dev/null
    tend add >/dev/null
    count=$(tend events -n 1000 | wc -l)
    run -0 tend stats --json
    json ".events == $count"
    run -0 tend stats
    [[ "$output" == *" $count events" ]]
    tend stats --prometheus | grep -qx "tend_events $count"
}

@test "figures count jobs that are due as pending, also when nobody asks for jobs" {
    tend add --in 50ms >/dev/null
    due() { tend stats --json | jq -e '.jobs.pending == 1 and .jobs.scheduled == 0 and .oldest_pending_ms > 0'; }
    until_true due
    [ "$(state_of 1)" = scheduled ]
    run -0 tend queues --json
    json '.jobs.pending == 1 and .oldest_pending_ms > 0'
    run -0 tend stats --prometheus
    grep -Eq '^tend_jobs\{queue="default",state="pending"\} 1$' <<<"$output"
    grep -Eq '^tend_queue_oldest_pending_seconds\{queue="default"\} [0-9]*\.?0*[1-9]' <<<"$output"
    run -0 tend explain 1
    [[ "$output" == "job 1 is scheduled. It has been due for "*"first in its queue"*"No worker is there."* ]]
}

@test "tables are cut to the terminal and coloured there, plain elsewhere" {
    tend add -q "$(printf 'wide%.0s' {1..30})" -k "$(printf 'ünï%.0s' {1..30})" >/dev/null
    run -0 script -qec "stty cols 80; '$TEND' jobs" /dev/null
    [[ "$output" == *$'\e[33mpending\e[0m'* ]]
    [[ "$output" == *…* ]]
    plain=$(sed 's/\x1b\[[0-9;]*m//g; s/\r//' <<<"$output")
    [ "$(LC_ALL=C.UTF-8 wc -L <<<"$plain")" -le 80 ]
    run -0 script -qec "'$TEND' --no-color jobs" /dev/null
    [[ "$output" != *$'\e'* ]]
    run -0 script -qec "NO_COLOR=1 '$TEND' jobs" /dev/null
    [[ "$output" != *$'\e'* ]]
    run -0 tend jobs
    [[ "$output" != *$'\e'* && "$output" != *…* ]]
}

# Symptom: an error of 100 kB was one line of 100 kB where there was no terminal to cut it.
@test "a long error is cut in tables, and whole in JSON" {
    id=$(tend add)
    claim
    tend fail "$lease" --final --text "$(printf 'x%.0s' {1..5000})" >/dev/null
    tend jobs >table
    [ "$(wc -L <table)" -lt 300 ]
    grep -q 'xxx…' table
    [ "$(tend jobs --json | jq '.error_text | length')" -ge 4096 ]
}

@test "show calls the folder of a job its folder" {
    tend add -- true >/dev/null
    tend show 1 | grep -qx "  folder       $PWD"
    run -0 tend show 1 --json
    json ".job.workspace == \"$PWD\""
}

@test "doctor says that the known bug of the SQLite library cannot happen here" {
    tend add >/dev/null
    run -0 tend doctor
    [[ "$output" =~ "SQLite 3."[0-9.]+("; its known checkpoint bug cannot happen here, because tend's write lock prevents it")?$'\n' ]]
    [[ "$output" != *"can lose a commit"* ]]
}
