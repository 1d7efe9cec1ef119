# What an operator does: cancel, retry, hold, resume, heal.
load helper

@test "cancel, retry, hold and resume by id" {
    tend add >/dev/null
    run -0 tend hold 1 --why 'waits for ann'
    [ "$output" = '1 job held' ]
    [ "$(state_of 1)" = held ]
    run -0 tend show 1 --json
    json '.job.changed_why == "waits for ann"'
    run -0 tend resume 1
    [ "$output" = '1 job resumed' ]
    [ "$(state_of 1)" = pending ]
    run -0 tend cancel 1
    [ "$output" = '1 job cancelled' ]
    [ "$(state_of 1)" = cancelled ]
    run -0 tend retry 1
    [ "$output" = '1 job started over' ]
    [ "$(state_of 1)" = pending ]
}

@test "events say who did it" {
    tend add >/dev/null
    tend cancel 1 >/dev/null
    run -0 tend events --job 1 --json
    [ "$(jq -r .who <<<"$output" | sort -u)" = "$(id -un)@$(hostname)" ]
}

@test "a state that does not allow it is exit status 4" {
    tend add >/dev/null
    fails 4 tend resume 1
    says 'job 1 is pending; only held jobs can be resumed'
    fails 4 tend retry 1
    says 'job 1 is pending; only failed or cancelled jobs can be retried'
    tend add --in 1h >/dev/null
    fails 4 tend resume 2
    says 'job 2 is scheduled; only held jobs can be resumed'
    tend cancel 1 >/dev/null
    fails 4 tend cancel 1
    fails 4 tend hold 1
}

@test "several ids: what can be done is done, the rest is named" {
    tend add >/dev/null
    tend add >/dev/null
    tend cancel 2 >/dev/null
    run --separate-stderr -4 tend cancel 1 2 9
    [ "$output" = '1 job cancelled' ]
    [ "${#stderr_lines[@]}" = 2 ]
    tend retry 1 2 >/dev/null
    run --separate-stderr -3 tend cancel 9 1 --json
    json '.action == "cancel" and .count == 1 and .refused[0].id == 9 and .refused[0].code == "ENOTFOUND"'
    output=$stderr
    json '.error.exit == 3'
}

@test "many at once: by queue, state, kind, tag, age; a dry run first" {
    for queue in a a b; do tend add -q $queue -k "kind-$queue" --tag "tag-$queue" >/dev/null; done
    run -0 tend cancel --queue a --dry-run
    [ "$output" = '2 jobs would be cancelled' ]
    run -0 tend cancel --queue a --dry-run --json
    json '.count == 2 and .dry_run'
    [ "$(tend stats --json | jq .jobs.cancelled)" = 0 ]
    run -0 tend cancel --queue a
    [ "$output" = '2 jobs cancelled' ]
    run -0 tend retry --state cancelled --json
    json '.count == 2 and .action == "retry"'
    run -0 tend hold --kind kind-b
    [ "$output" = '1 job held' ]
    run -0 tend resume --tag tag-b
    [ "$output" = '1 job resumed' ]
    run -0 tend cancel --older-than 1h
    [ "$output" = '0 jobs cancelled' ]
    run -0 tend cancel --all
    [ "$output" = '3 jobs cancelled' ]
    run -0 tend cancel --all --dry-run
    [ "$output" = '0 jobs would be cancelled' ]
}

# Jobs that had been cancelled on purpose came back with those that had failed.
@test "retry of many takes cancelled jobs only with --state cancelled" {
    tend add >/dev/null
    tend cancel 1 >/dev/null
    run -0 tend retry --queue default --dry-run
    [ "$output" = '0 jobs would be started over' ]
    run -0 tend retry --all
    [ "$output" = '0 jobs started over' ]
    [ "$(state_of 1)" = cancelled ]
    run -0 tend retry --queue default --state cancelled
    [ "$output" = '1 job started over' ]
}

# 'retry --all --dry-run' announced jobs whose key another job had, and 'retry --all' left them out without a word.
@test "retry says whose key another job has, also before" {
    tend add --unique k >/dev/null
    claim
    tend fail "$lease" --final >/dev/null
    tend add --unique k >/dev/null
    live=$(tend jobs -s pending --json | jq .id)
    because="job 1 cannot be retried: job $live, which has not finished, has its unique key"
    run --separate-stderr -0 tend retry --all --dry-run
    [ "$output" = '0 jobs would be started over' ]
    [[ "$stderr" == *'retry: 1 job would stay as it is, because another job that has not finished would have its unique key: 1' ]]
    run --separate-stderr -0 tend retry --all
    [ "$output" = '0 jobs started over' ]
    [[ "$stderr" == *'retry: 1 job stays as it is, because another job that has not finished has its unique key: 1' ]]
    for dry in '' --dry-run; do
        run -0 tend retry --all --json $dry
        json '.count == 0 and (.refused | length) == 1 and .refused[0].id == 1 and .refused[0].code == "ECONFLICT"'
        [ "$(jq -r '.refused[0].message' <<<"$output")" = "$because" ]
    done
    run --separate-stderr -0 tend retry 1 --dry-run
    [ "$output" = '0 jobs would be started over' ]
    [[ "$stderr" == *"retry: job 1 would be refused: $because" ]]
    run -0 tend retry 1 --dry-run --json
    json '.count == 0 and .refused[0].code == "ECONFLICT"'
    fails 4 tend retry 1
    says "$because"
}

# The others were not tried when the key of one was taken.
@test "retry of several ids goes on after one whose key is taken; of one key the newest is started over" {
    for key in taken two two; do
        tend add --unique $key >/dev/null
        tend cancel --all >/dev/null
    done
    ids=($(tend jobs -s cancelled --json | jq .id | sort -n))
    tend add --unique taken >/dev/null
    run --separate-stderr -0 tend retry "${ids[@]}" --dry-run
    [ "$output" = '1 job would be started over' ]
    [ "${#stderr_lines[@]}" = 2 ]
    run --separate-stderr -4 tend retry "${ids[@]}" --json
    json '.count == 1 and (.refused | length) == 2 and all(.refused[]; .code == "ECONFLICT")'
    [ "$(jq .error.code <<<"$stderr")" = '"ECONFLICT"' ]
    [ "$(state_of "${ids[0]}")$(state_of "${ids[1]}")$(state_of "${ids[2]}")" = cancelledcancelledpending ]
    tend cancel "${ids[2]}" >/dev/null
    run --separate-stderr -0 tend retry --state cancelled --dry-run
    [ "$output" = '1 job would be started over' ]
    run --separate-stderr -0 tend retry --state cancelled
    [ "$output" = '1 job started over' ]
    [[ "$stderr" == *"retry: 2 jobs stay as they are, because another job that has not finished has their unique key: ${ids[0]},${ids[1]}" ]]
    [ "$(state_of "${ids[2]}")" = pending ]
}

@test "many at once needs to be asked for" {
    tend add >/dev/null
    for command in cancel retry hold resume; do
        fails 2 tend "$command"
        says "which jobs?"
        fails 2 tend "$command" 1 --queue default
        says "not both"
    done
    fails 2 tend retry
    says '--all takes all failed jobs'
    [ "$(state_of 1)" = pending ]
}

@test "a running job that is cancelled takes its lease with it" {
    tend add >/dev/null
    claim
    tend cancel 1 >/dev/null
    fails 4 tend complete "$lease"
}

# CL-7: only 'cancel ID' told of it, without the id of the new job; 'cancel --queue' said nothing.
@test "cancel says which jobs come of what was submitted meanwhile" {
    tend add -q a --unique one >/dev/null
    tend add -q a --unique two >/dev/null
    tend claim -q a -n 2 >/dev/null
    tend add -q a --unique one >/dev/null
    run --separate-stderr -0 tend cancel 1 --dry-run
    [[ "$stderr" == *'cancel: 1 submission that waits for the end of a run would become a job' ]]
    run --separate-stderr -0 tend cancel 1
    [ "$output" = '1 job cancelled' ]
    new=$(tend jobs -q a -s pending --json | jq .id)
    [[ "$stderr" == *"cancel: 1 submission that waited for the end of a run is a job now: $new" ]]
    tend claim -q a >/dev/null
    tend add -q a --unique one >/dev/null
    tend add -q a --unique two >/dev/null
    run -0 tend cancel --queue a --dry-run --json
    json '.count == 2 and .follower_count == 2 and .followers == []'
    run --separate-stderr -0 tend cancel --queue a
    [ "$output" = '2 jobs cancelled' ]
    ids=$(tend jobs -q a -s pending --json | jq .id | sort -n | paste -sd,)
    [[ "$stderr" == *"cancel: 2 submissions that waited for the end of a run are jobs now: "* ]]
    [ "$(sed 's/.*: //' <<<"$stderr" | tr , '\n' | sort -n | paste -sd,)" = "$ids" ]
    tend claim -q a >/dev/null
    tend add -q a --unique one >/dev/null
    tend add -q a --unique two >/dev/null
    run -0 tend cancel --all --json
    json '.count == 2 and .follower_count == 1'
    [ "$(jq -c .followers <<<"$output")" = "[$(tend jobs -q a -s pending --json | jq .id)]" ]
    key=$(tend claim -q a | jq -r .unique_key)
    tend add -q a --unique "$key" >/dev/null
    run -0 tend control "$(tend jobs -q a -s running --json | jq .id)" cancel
    new=$(tend jobs -q a -s pending --json | jq .id)
    [[ "$output" == *"; what was submitted under its key is now job $new" ]]
    run -0 tend control "$new" cancel --json
    json '.state == "cancelled" and .follower == null'
    run -0 tend hold --all --json
    json '.follower_count == 0 and .followers == []'
}

# RC-2, RC-3, RC-4
@test "heal reclaims what has expired; a dry run only counts" {
    tend add >/dev/null
    tend add >/dev/null
    run -0 tend heal
    [ "$output" = 'nothing is stale' ]
    # The longer first: a claim would heal what has expired.
    claim --ttl 1h
    claim --ttl 1ms
    tend lock acquire l -w me --ttl 1ms >/dev/null
    sleep 0.01
    run -0 tend heal --dry-run --json
    json '.entries_reclaimed == 1 and .locks_cleaned == 1 and .recovery_timestamp > 0'
    [ "$(state_of 2)" = running ]
    run --separate-stderr -0 tend heal
    [ "$output" = '1 job reclaimed, 1 lock cleaned' ]
    [ "$(state_of 2)" = pending ]
    [ "$(state_of 1)" = running ]
    run -0 tend heal --json
    json '. == {"locks_cleaned": 0, "entries_reclaimed": 0, "entries_quarantined": 0,
                "recovery_timestamp": .recovery_timestamp,
                "entries_skipped": 0, "skipped": [], "skipped_by": null, "removed": .removed}'
}

# RC-2, RC-12: said "reclaimed" of jobs that had failed for good.
@test "heal counts what it quarantined" {
    tend add --max-crashes 1 >/dev/null
    tend add >/dev/null
    tend claim -n 2 --ttl 1ms >/dev/null
    sleep 0.01
    run -0 tend heal --dry-run --json
    json '.entries_reclaimed == 2 and .entries_quarantined == null'
    run --separate-stderr -0 tend heal
    [ "$output" = '2 jobs reclaimed (1 of them quarantined), 0 locks cleaned' ]
    [ "$(state_of 1)" = failed ]
    [[ "$(tend show 1 --json | jq -r .job.error_text)" == 'its worker was lost 1 time while it ran, '* ]]
    tend add --max-crashes 1 >/dev/null
    tend claim -n 2 --ttl 1ms >/dev/null
    sleep 0.01
    run -0 tend heal --json
    json '.entries_reclaimed == 2 and .entries_quarantined == 1'
}

@test "heal --older-than takes leases without a sign of life" {
    tend add >/dev/null
    claim --ttl 1h
    run -0 tend heal --older-than 10m --json
    json '.entries_reclaimed == 0'
    sleep 0.01
    run -0 tend heal --older-than 5ms --dry-run --json
    json '.entries_reclaimed == 1'
    [ "$(state_of 1)" = running ]
    run -0 tend heal --older-than 5ms --json
    json '.entries_reclaimed == 1'
    [ "$(state_of 1)" = pending ]
    fails 4 tend heartbeat "$lease"
    fails 2 tend heal --older-than -5m
}

finished_long_ago() {
    id=$(tend add)
    tend cancel "$id" >/dev/null
    tend queue set default --keep-done 0s >/dev/null
}

@test "purge deletes what need not be kept; a dry run only counts" {
    finished_long_ago
    run -0 tend purge --dry-run
    [ "$output" = '1 job and 0 events would be deleted' ]
    run -0 tend purge --dry-run --json
    json '. == {"jobs": 1, "events": 0, "dry_run": true}'
    [ "$(state_of "$id")" = cancelled ]
    run -0 tend purge --json
    json '. == {"jobs": 1, "events": 0, "dry_run": false}'
    fails 3 tend show "$id"
    run -0 tend purge
    [ "$output" = '0 jobs and 0 events deleted' ]
}

@test "heal purges too, and says so" {
    finished_long_ago
    run -0 tend heal --dry-run
    [ "$output" = $'nothing is stale\n1 job and 0 events would be deleted' ]
    run -0 tend heal
    [ "$output" = $'nothing is stale\n1 job and 0 events deleted' ]
    fails 3 tend show "$id"
}

# The sentence did not say which job that is.
@test "retry names the job that has the key" {
    tend add --unique k -- sh -c 'exit 64' >/dev/null
    tend work --drain >/dev/null
    other=$(tend add --unique k)
    fails 4 tend retry 1
    says "job 1 cannot be retried: job $other, which has not finished, has its unique key"
    fails 4 tend control 1 retry_step
    says "job 1 cannot be brought back: job $other, which has not finished, has its unique key"
}

# "nonsense:" and "due in 30s, last:", with nothing after them
@test "a failure without a text is listed without a colon" {
    tend add --max-attempts 2 >/dev/null
    claim
    tend fail "$lease" --class nonsense --retry-in 0s >/dev/null
    claim
    tend fail "$lease" --class nonsense >/dev/null
    tend add -q later >/dev/null
    claim -q later
    tend fail "$lease" >/dev/null
    run -0 tend jobs
    [[ "${lines[2]}" == *' nonsense' ]]
    [[ "${lines[1]}" != *last* ]]
}
