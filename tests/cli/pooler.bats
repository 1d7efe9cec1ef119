# Through PgBouncer in transaction mode, which lends each session to whoever has the next
# transaction. TEND_TEST_PG_URL is a server; each test has a database and a PgBouncer of its own.
load helper
load running

PGBOUNCER=/usr/sbin/pgbouncer

setup() {
    unset TEND_STATSD NOTIFY_SOCKET PGOPTIONS
    cd "$BATS_TEST_TMPDIR" || return
    started=()
    own_database pooler
}

teardown() {
    end_started
    drop_database
}

# part NAME: host or port of the server
part() {
    sed -E "s/.*[?&]$1=([^&]*).*/\1/" <<<"$TEND_TEST_PG_URL"
}

# start_pooler [SETTING…]: PgBouncer with one session, which everybody shares; TEND_STORE goes through it
start_pooler() {
    local as='' folder port
    folder=$(mktemp -d /tmp/tend-pooler.XXXXXX)
    if [ "$(id -u)" = 0 ]; then # which PgBouncer refuses to be run by
        as="--reuid=postgres --regid=postgres --clear-groups"
        chown postgres: "$folder"
    fi
    for _ in 1 2 3 4 5 6 7 8 9 10; do # the port may be taken
        port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))
        printf '%s\n' '[databases]' "* = host=$(part host) port=$(part port) user=postgres" \
            '[pgbouncer]' 'listen_addr = 127.0.0.1' "listen_port = $port" 'unix_socket_dir =' \
            'auth_type = any' 'pool_mode = transaction' 'default_pool_size = 1' "$@" >"$folder/ini"
        # shellcheck disable=SC2086  # a list of words
        setpriv $as --pdeathsig KILL "$PGBOUNCER" -q "$folder/ini" >pooler.log 2>&1 3>&- &
        started+=("$!")
        TEND_STORE="postgresql://postgres@127.0.0.1:$port/$name?gssencmode=disable"
        until psql -qAtX "$TEND_STORE" -c 'SELECT 1' >/dev/null 2>&1; do
            kill -0 "$!" 2>/dev/null || continue 2
            sleep 0.02
        done
        rm -r "$folder"
        return
    done
    cat pooler.log
    return 1
}

# The settings of the session as another application finds them, and what is prepared in it.
found_by_others() {
    psql -qAtX "$TEND_STORE" -c "SELECT name, setting FROM pg_settings WHERE source = 'session' AND
        name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone',
            'standard_conforming_strings')
        UNION ALL SELECT 'prepared', name FROM pg_prepared_statements
        UNION ALL SELECT 'held', locktype FROM pg_locks
            WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
}

nothing_stays_behind() {
    run -0 found_by_others
    [ -z "$output" ] || { echo "found in the shared session: $output"; return 1; }
}

keeper_is_there() {
    [ "$(psql -qAtX "$TEND_TEST_PG_URL" -c "SELECT count(*) FROM pg_stat_activity
        WHERE datname = '$name' AND application_name LIKE '% keeper'")" = 1 ]
}

usual_calls() {
    tend add -q mail >/dev/null
    tend add -q mail --payload '{"run": "true"}' >/dev/null
    claim -q mail -w me
    tend heartbeat "$lease" >/dev/null
    tend complete "$lease" >/dev/null
    tend queue set mail --concurrency 1 >/dev/null
    claim -q mail -w me
    run -5 tend claim -q mail -w me
    tend release "$lease" >/dev/null
    seq 500 | sed 's/.*/{"payload":&}/' | tend add --batch - >/dev/null
    tend lock acquire deploy -w ann >/dev/null
    tend lock release deploy -w ann >/dev/null
    tend schedule add hourly '0 * * * *' >/dev/null
    tend work -q mail --drain >work.log
    [ "$(state_of 2)" = done ]
    tend heal >/dev/null
    run -0 tend stats --json
}

# Symptom: search_path, enable_seqscan=off and timeouts stayed in sessions of other applications, and
# the next call failed with 42P05.
@test "a pooler that is not told of is found out, and nothing stays behind in its sessions" {
    start_pooler
    usual_calls
    nothing_stays_behind
    run -0 tend doctor
    [[ "$output" == *'a pooler lends the sessions to others'* ]]
}

@test "a pooler that drops the startup options is found out, too" {
    start_pooler 'ignore_startup_parameters = options,extra_float_digits'
    usual_calls
    nothing_stays_behind
    run -0 tend doctor
    [[ "$output" == *'a pooler lends the sessions to others'* ]]
}

@test "with tend_pooler=1 the usual calls work, and nothing stays behind" {
    start_pooler
    TEND_STORE+='&tend_pooler=1'
    usual_calls
    TEND_STORE=${TEND_STORE%&tend_pooler=1}
    nothing_stays_behind
}

# Symptom: doctor said so, and the last commits could be lost in a crash of the server.
@test "behind a pooler a commit is flushed also where the server would not wait for it" {
    psql -qX "$TEND_TEST_PG_URL" -c "ALTER DATABASE $name SET synchronous_commit = off"
    start_pooler
    tend migrate >/dev/null
    psql -qX "$TEND_STORE" -c "CREATE TABLE seen (setting text);
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
            INSERT INTO public.seen VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END';
        CREATE TRIGGER see AFTER INSERT ON tend.job FOR EACH ROW EXECUTE FUNCTION see()"
    tend add >/dev/null
    [ "$(psql -qAtX "$TEND_STORE" -c 'SELECT setting FROM seen')" = on ]
    [ "$(psql -qAtX "$TEND_STORE" -c 'SHOW synchronous_commit')" = off ]
    run -0 tend doctor
    [[ "$output" == *'synchronous_commit = on'* ]]
}

@test "behind a pooler the usual calls work in a database with a stricter isolation level, which stays" {
    psql -qX "$TEND_TEST_PG_URL" -c "ALTER DATABASE $name SET default_transaction_isolation = serializable"
    start_pooler
    usual_calls
    nothing_stays_behind
    [ "$(psql -qAtX "$TEND_STORE" -c 'SHOW transaction_isolation')" = serializable ]
}

@test "a pooler in session mode serves as the server itself when the URL vouches for it" {
    start_pooler 'pool_mode = session' 'default_pool_size = 20'
    TEND_STORE+='&tend_pooler=0'
    usual_calls
    run -0 tend doctor
    [[ "$output" != *'a pooler lends'* ]]
    # It is woken, for which a session of its own is needed.
    "$TEND" claim -q news -w me --wait 20s >claimed 3>&- &
    started+=("$!")
    until_true keeper_is_there
    tend add -q news >/dev/null
    wait "${started[-1]}"
    [ -s claimed ]
}

@test "a URL that vouches for a transaction pooler is told what to say instead" {
    start_pooler
    TEND_STORE+='&tend_pooler=0'
    tend add >/dev/null
    fails 69 tend add
    says 'tend_pooler=1'
}

# Symptom: 'claim --wait=15s' to a server that accepts and never answers ended after 43 s.
@test "claim and lock acquire with --wait give up on a server that accepts and never answers" {
    start_pooler
    tend migrate >/dev/null
    kill -STOP "${started[-1]}"
    before=$SECONDS
    fails 69 tend claim -w me --wait 1s
    fails 69 tend lock acquire l --owner me --wait 1s
    [ "$((SECONDS - before))" -lt 15 ]
    kill -CONT "${started[-1]}"
}
