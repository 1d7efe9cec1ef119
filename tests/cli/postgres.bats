# The command line on PostgreSQL. TEND_TEST_PG_URL is a server; each test has a database of its own.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    name=cli_$$_$BATS_TEST_NUMBER
    psql -qX "$TEND_TEST_PG_URL" -c "CREATE DATABASE $name"
    TEND_STORE=${TEND_TEST_PG_URL/\/postgres\?/\/$name?}
    export TEND_STORE
}

teardown() {
    psql -qX "$TEND_TEST_PG_URL" -c "DROP DATABASE $name WITH (FORCE)"
    psql -qX "$TEND_TEST_PG_URL" -c "SET client_min_messages = error" -c "DROP ROLE IF EXISTS $name"
}

@test "a job's life" {
    run --separate-stderr -0 tend add -q mail -k welcome --payload '{"b":1,  "a":1.50}' --tag vip
    [ "$output" = 1 ]
    claim -q mail -w me
    run -0 tend heartbeat "$lease"
    [ "$output" = '1 extended' ]
    tend phase "$lease" sending >/dev/null
    run -0 tend complete "$lease" --result '{"sent":true}'
    run -0 tend show 1 --json
    json '.job.state == "done" and .job.result.sent and .job.tags == ["vip"]'
    [[ "$output" == *'"payload":{"b":1,  "a":1.50}'* ]]
    fails 4 tend fail "$id:$((token + 1))"
    [ ! -e .tend ]
}

@test "a store that is not there is not made by what only reads" {
    fails 3 tend jobs
    [ "$(psql -qAtX "$TEND_STORE" -c "SELECT count(*) FROM pg_class WHERE relname = 'job'")" = 0 ]
    tend migrate >/dev/null
    run -0 tend jobs --json
    [ -z "$output" ]
}

# Somebody who had mistyped the schema had two stores, and knew nothing of it.
@test "a store that is made is told, by the name of its schema" {
    run --separate-stderr -0 tend add
    [[ "$stderr" == "tend: made store: schema 'tend' of PostgreSQL at "*", database $name" ]]
    TEND_STORE+='&tend_schema=typo'
    run --separate-stderr -0 tend migrate
    [[ "$stderr" == "tend: made store: schema 'typo' of PostgreSQL at "*", database $name" ]]
    run --separate-stderr -0 tend add
    [ -z "$stderr" ]
    TEND_STORE+=2
    run --separate-stderr -0 tend add --json
    [ -z "$stderr" ]
}

# The sentence named a query of ours and rights "on the schema", also of a schema that was not there.
@test "a role without a right is told which it needs, and works once it has it" {
    owner=$TEND_STORE
    tend add >/dev/null
    psql -qX "$owner" -c "CREATE ROLE $name LOGIN" -c "GRANT USAGE ON SCHEMA tend TO $name" \
        -c "GRANT SELECT ON ALL TABLES IN SCHEMA tend TO $name"
    TEND_STORE+="&user=$name"
    run -0 tend jobs
    fails 1 tend add
    says 'this role may not do that on PostgreSQL'
    says 'permission denied for table'
    says 'grant it USAGE on the schema and ALL on its tables and sequences, or SELECT on both if it only reads'
    [[ "$stderr" != *job_add* ]]
    psql -qX "$owner" -c "GRANT ALL ON ALL TABLES IN SCHEMA tend TO $name" \
        -c "GRANT ALL ON ALL SEQUENCES IN SCHEMA tend TO $name"
    run -0 tend add -q other -- true
    run -0 tend work -q other --drain
    [ "$(tend jobs --state done --json | jq -r .queue)" = other ]
    tend migrate --after-restore

    TEND_STORE+='&tend_schema=mine'
    fails 69 tend add
    says "may not set up schema 'mine'"
    says 'there is no such schema yet: grant it CREATE on the database'
    psql -qX "$owner" -c "CREATE SCHEMA mine" -c "GRANT USAGE ON SCHEMA mine TO $name"
    fails 69 tend add
    says 'grant it USAGE and CREATE on the schema'
    psql -qX "$owner" -c "GRANT CREATE ON SCHEMA mine TO $name"
    run -0 tend add
}

# The grants of the manual left out the sequences: 'tend events' failed and advised to grant ALL.
@test "a role with SELECT on tables and sequences can read everything" {
    local owner=$TEND_STORE command
    tend add -q first -- true >/dev/null
    tend add -q first -- true >/dev/null
    tend work -q first --drain >/dev/null 2>&1
    psql -qX "$owner" -c "CREATE ROLE $name LOGIN" -c "GRANT USAGE ON SCHEMA tend TO $name" \
        -c "GRANT SELECT ON ALL TABLES IN SCHEMA tend TO $name"
    TEND_STORE+="&user=$name"
    fails 1 tend events
    says 'permission denied for sequence'
    says 'or SELECT on both if it only reads'
    psql -qX "$owner" -c "GRANT SELECT ON ALL SEQUENCES IN SCHEMA tend TO $name"
    for command in events jobs 'show 1' 'explain 1' 'logs 1' queues 'queue show first' stats workers 'lock ls' \
        'schedule ls' 'heal --dry-run' 'purge --dry-run' migrate; do
        # shellcheck disable=SC2086  # words
        run -0 tend $command
    done
}

# The doctor found the store well in these two, while no write could succeed.
@test "the doctor says that transactions are read-only, and how to undo it" {
    tend add >/dev/null
    psql -qX "$TEND_STORE" -c "ALTER DATABASE $name SET default_transaction_read_only = on"
    run -1 tend doctor
    [[ "$output" == *'BAD  writing: nothing can be written: default_transaction_read_only is on'*'turn it off with ALTER ROLE'* ]]
    psql -qX "$TEND_STORE" -c "SET default_transaction_read_only = off" \
        -c "ALTER DATABASE $name SET default_transaction_read_only = off"
    run -0 tend doctor
    [[ "$output" == *'ok   writing: the server takes writes'* && "$output" == *'ok   permissions: '* ]]
}

@test "the doctor says which right a role lacks on which table or sequence" {
    local owner=$TEND_STORE
    tend add >/dev/null
    psql -qX "$owner" -c "CREATE ROLE $name LOGIN" -c "GRANT USAGE ON SCHEMA tend TO $name" \
        -c "GRANT SELECT ON ALL TABLES IN SCHEMA tend TO $name"
    TEND_STORE+="&user=$name"
    run -1 tend doctor
    [[ "$output" == *"BAD  permissions: role $name lacks INSERT, UPDATE, DELETE on the tables attempt, "*" job, "*": GRANT ALL ON ALL TABLES IN SCHEMA tend TO $name "* ]]
    [[ "$output" == *"BAD  permissions: role $name lacks SELECT, USAGE, UPDATE on the sequences "*"event_id"* ]]
    psql -qX "$owner" -c "GRANT ALL ON ALL TABLES IN SCHEMA tend TO $name" \
        -c "GRANT ALL ON ALL SEQUENCES IN SCHEMA tend TO $name" -c "REVOKE DELETE ON tend.lock FROM $name"
    run -1 tend doctor --json
    json '[.findings[] | select(.verdict == "wrong") | .text] | length == 1 and
        (.[0] | test("lacks DELETE on the tables lock:"))'
    # What it may not read is a finding, too.
    psql -qX "$owner" -c "GRANT DELETE ON tend.lock TO $name" -c "REVOKE SELECT ON tend.migration, tend.job FROM $name"
    run -1 tend doctor
    [[ "$output" == *"lacks SELECT on the tables job, migration:"*"BAD  migrations: cannot be read: this role has no permission"* ]]
    psql -qX "$owner" -c "GRANT SELECT ON tend.migration, tend.job TO $name"
    run -0 tend doctor
}

# They named queries of ours: "job_add_one failed on PostgreSQL".
@test "a sentence says in words what was being done" {
    tend add >/dev/null
    psql -qX "$TEND_STORE" -c "ALTER DATABASE $name SET default_transaction_read_only = on"
    fails 1 tend add
    says 'tend: adding jobs failed on PostgreSQL'
    fails 1 tend claim
    says 'tend: claiming jobs failed on PostgreSQL'
    fails 1 tend lock acquire deploy -w me
    says 'tend: changing locks failed on PostgreSQL'
}

@test "fail, retry, release, hold, resume, cancel" {
    tend add --max-attempts 1 >/dev/null
    claim
    tend fail "$lease" --text broken >/dev/null
    [ "$(state_of 1)" = failed ]
    tend retry 1 >/dev/null
    claim
    tend release "$lease" --delay 1h >/dev/null
    [ "$(state_of 1)" = scheduled ]
    tend hold 1 >/dev/null
    tend resume 1 >/dev/null
    run -0 tend cancel --all
    [ "$output" = '1 job cancelled' ]
    fails 3 tend show 99
}

@test "a batch, with a bad line" {
    seq 1500 | sed 's/.*/{"payload":&}/' >jobs.jsonl
    echo '{"kind":}' >>jobs.jsonl
    run --separate-stderr -2 tend add --batch <(cat jobs.jsonl)
    [ "${#lines[@]}" = 1500 ]
    says "line 1501, column 9"
    [ "$(tend jobs --json | jq .id | uniq | wc -l)" = 1500 ]
}

@test "a line of a batch that only the store refuses is named" {
    tend migrate >/dev/null
    psql -qX "$TEND_STORE" -c "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        \$\$BEGIN RAISE EXCEPTION 'never' USING ERRCODE = '22000'; END\$\$" \
        -c "CREATE TRIGGER refuse BEFORE INSERT ON tend.job FOR EACH ROW WHEN (NEW.kind = 'never') EXECUTE FUNCTION refuse()"
    printf '{"kind":"never"}\n{}\n' >first.jsonl
    printf '{}\n{"kind":"never"}\n{}\n' >second.jsonl
    run --separate-stderr -2 tend add --batch first.jsonl
    [ -z "$output" ]
    says "add: nothing was added: first.jsonl, line 1: "
    run --separate-stderr -2 tend add --batch second.jsonl
    [ "${#lines[@]}" = 1 ]
    says "add: second.jsonl, line 2: "
    says "; the lines before it were added (1 job): correct it and continue from there"
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

# Whoever believed "nothing was added" added all of it twice.
@test "a batch whose commit is not answered is not told as one that was not added" {
    tend migrate >/dev/null
    psql -qX "$TEND_STORE" -c "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS
        \$\$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END\$\$" \
        -c "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON tend.job DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.kind = 'last') EXECUTE FUNCTION cut()"
    printf '{}\n{"kind":"last"}\n' >jobs.jsonl
    run --separate-stderr -69 tend add --batch jobs.jsonl
    [ -z "$output" ]
    says 'add: 0 jobs were added for sure; from line 1 of jobs.jsonl on none is acknowledged: '
    says 'whether it was saved is not known'
}

# A batch printed ids that were 0, with exit status 0; complete said that the job was done with another result.
@test "a copy whose ids begin anew takes nothing, says so, and is healed" {
    seq 20 | sed 's/.*/{}/' | tend add --batch - >/dev/null
    lease=$(tend claim | jq -r .lease)
    psql -qX "$TEND_STORE" -c "SELECT setval('tend.event_id', 1, false)" >/dev/null
    echo '{}' >jobs.jsonl
    fails 1 tend add --batch jobs.jsonl
    says "from line 1 of jobs.jsonl on none is acknowledged: adding jobs failed on PostgreSQL"
    says "as a copy does that was made without its sequences; run 'tend migrate --after-restore'"
    fails 1 tend complete "$lease"
    says "run 'tend migrate --after-restore'"
    run -1 tend doctor
    [[ "$output" == *"BAD  ids: the sequence event_id is at "*"tend migrate --after-restore"* ]]
    tend migrate --after-restore
    run -0 tend doctor
    run -0 tend add --batch jobs.jsonl
    run -0 tend complete "$lease"
    [ "$(tend stats --json | jq '.jobs.pending + .jobs.done')" = 21 ]
}

@test "unique keys" {
    tend add --unique k --subject a >/dev/null
    run -0 tend add --unique k --subject a --json
    json '.outcome == "refreshed"'
    fails 4 tend add --unique k --subject b
}

@test "locks" {
    tend lock acquire deploy -w ann >/dev/null
    fails 4 tend lock acquire deploy -w bob
    run -4 tend lock release deploy -w bob
    tend lock release deploy -w ann >/dev/null
    run -5 tend lock show deploy
}

@test "queues, settings and limits" {
    tend queue set default --concurrency 1 --rate 20/60s >/dev/null
    tend add >/dev/null
    tend add >/dev/null
    tend claim >/dev/null
    fails 5 tend claim
    says "concurrency"
    run -0 tend queues --json
    json '.jobs.running == 1 and .jobs.pending == 1 and .rate == "20/1m"'
}

@test "waiting: claim --wait and events -f" {
    tend migrate >/dev/null
    "$TEND" events -f --json >seen 3>&- &
    follower=$!
    "$TEND" claim --wait >claimed 3>&- &
    claimer=$!
    tend add >/dev/null
    wait $claimer
    [ "$(jq .id claimed)" = 1 ]
    until_true grep -q job.claimed seen
    kill -TERM $follower
    wait $follower || [ $? = 143 ]
}

# RC-2: said "nothing is stale", while explain said that heal takes the job back at once.
@test "heal names a job whose row another session holds" {
    tend add >/dev/null
    claim --ttl 1ms
    mkfifo hold
    psql -qX "$TEND_STORE" <hold >held 3>&- &
    holder=$!
    exec 8>hold
    echo 'BEGIN; SELECT id FROM tend.job FOR UPDATE;' >&8
    until_true test -s held
    # The dry run said that the job would be reclaimed.
    run -0 tend heal --dry-run
    [[ "$output" == "would skip 1 job whose row another session holds: $id; $id by session "*"; see 'tend explain $id'" ]]
    run -0 tend heal --dry-run --json
    json ".entries_reclaimed == 0 and .entries_skipped == 1 and .skipped == [$id] and (.skipped_by | test(\"psql\"))"
    run -0 tend heal
    [[ "$output" == "skipped 1 job whose row another session holds: $id; $id by session "*"; see 'tend explain $id'" ]]
    run -0 tend heal --json
    json ".entries_reclaimed == 0 and .entries_skipped == 1 and .skipped == [$id] and (.skipped_by | test(\"psql\"))"
    run -0 tend explain "$id"
    [[ "$output" == *'its row is locked by session '*psql* ]]
    [[ "$output" != *'at once'* ]]
    echo 'COMMIT;' >&8
    exec 8>&-
    wait $holder
    run --separate-stderr -0 tend heal
    [ "$output" = '1 job reclaimed, 0 locks cleaned' ]
}

@test "heal, explain, stats, doctor, schedules" {
    tend add >/dev/null
    claim --ttl 1ms
    sleep 0.01
    run -0 tend heal --json
    json '.entries_reclaimed == 1'
    run -0 tend explain 1 --json
    json '.reason == "ready"'
    run -0 tend stats --json
    json '.jobs.pending == 1'
    run -0 tend doctor --json
    json '.wrong == 0'
    tend schedule add x @daily >/dev/null
    run -0 tend schedule ls --json
    json '.name == "x" and .next_at_ms > 0'
}

@test "a newer schema is refused with what to do" {
    tend add >/dev/null
    psql -qX "$TEND_STORE" -c 'UPDATE tend.tend_schema_version SET version = version + 1'
    fails 1 tend jobs
    says "newer"
    fails 1 tend add
    psql -qX "$TEND_STORE" -c 'UPDATE tend.tend_schema_version SET version = version - 1'
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

@test "a database or user that is not there is exit status 69, in one sentence" {
    fails 69 tend add --store "${TEND_STORE/$name/no_such_database}"
    says no_such_database
    fails 69 tend jobs --store "${TEND_STORE/postgres@/nobody@}"
}

@test "a lease tied to a process ends with it" {
    tend add >/dev/null
    sleep 1000 3>&- &
    holder=$!
    claim --while-pid $holder
    fails 5 tend claim
    kill -KILL $holder
    wait $holder || true
    run --separate-stderr -0 tend claim --wait 20s
    json '.id == 1'
    fails 4 tend complete "$lease"
}

# The session by which it hears of news has been opened, and the one that claims is at rest.
claimer_waits() {
    [ "$(psql -qAtX "$TEND_STORE" -c "SELECT count(*) FROM pg_stat_activity WHERE datname = '$name' AND state = 'idle'
        AND pid <> pg_backend_pid()")" -ge 2 ]
}

@test "a server that goes away under a waiting command" {
    tend migrate >/dev/null
    "$TEND" claim --wait >claimed 2>log 3>&- &
    claimer=$!
    until_true claimer_waits
    psql -qX "$TEND_STORE" -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = '$name' AND pid <> pg_backend_pid()" >/dev/null
    tend add >/dev/null
    wait $claimer
    [ "$(jq .id claimed)" = 1 ]
}

# Symptom: before the first write after a restart, all that only look said that the lease and the lock were lost.
@test "after a restart of the server, what only looks counts leases as 'tend heal' does" {
    tend add >/dev/null
    claim --ttl 5s
    tend lock acquire door --owner me --ttl 5s >/dev/null
    tend heal
    psql -qX "$TEND_STORE" -c "UPDATE tend.store SET server_since = 1" \
        -c "UPDATE tend.job SET alarm_at = alarm_at - 60000" -c "UPDATE tend.lock SET expires_at = expires_at - 60000"
    run -0 tend heal --dry-run
    [ "$output" = 'nothing is stale' ]
    run -0 tend heal --dry-run --older-than 1ms --json
    json '.entries_reclaimed == 0 and .recovery_timestamp > 1000000000000'
    run -0 tend explain "$id"
    [[ "$output" == *'the lease ends in '* ]]
    run -0 tend show "$id"
    [[ "$output" == *'until '*' (in '*'the lease ends in '* ]]
    run -0 tend lock ls
    [[ "$output" == *door*' in '* && "$output" != *expired* ]]
    run -0 tend lock show door --json
    json '.held and (.expired | not)'
    run tend doctor
    [[ "$output" == *'nothing is stale'* ]]
    run -0 --separate-stderr tend heal
    [ "$output" = 'nothing is stale' ]
    [[ "$stderr" == *'leases and locks were moved along'* ]]
    tend complete "$lease"
}
