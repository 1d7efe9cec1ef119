# For the tests of commands that run jobs; loaded behind helper.

DATAGRAMS=$TEND_BUILD/tests/cli/datagrams

setup() {
    unset TEND_STORE NO_COLOR TEND_RECOVERY_INTERVAL_MS TEND_STATSD NOTIFY_SOCKET WATCHDOG_USEC \
        WATCHDOG_PID JOURNAL_STREAM
    cd "$BATS_TEST_TMPDIR" || return
    started=()
}

teardown() {
    end_started
}

end_started() {
    local pid
    for pid in "${started[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}

# own_database NAME: TEND_STORE is a database of this test's; drop_database removes it
own_database() {
    name=$1_$$_$BATS_TEST_NUMBER
    psql -qX "$TEND_TEST_PG_URL" -c "CREATE DATABASE $name"
    export TEND_STORE=${TEND_TEST_PG_URL/\/postgres\?/\/$name?}
}

drop_database() {
    psql -qX "$TEND_TEST_PG_URL" -c "DROP DATABASE $name WITH (FORCE)"
}

# What a test waits for in a file must not be there from before: a background command empties its own file late.

# start_worker …: a worker in the background; $worker is its pid, work.log what it says
start_worker() {
    rm -f work.log
    "$TEND" work "$@" >work.log 2>&1 3>&- &
    worker=$!
    started+=("$worker")
    until_true grep -q 'working on' work.log
}

# start_listener udp|unix:NAME: $listener is its pid, packets what has come
start_listener() {
    rm -f packets
    "$DATAGRAMS" "$1" >packets 3>&- &
    listener=$!
    started+=("$listener")
    until_true test -s packets
}

# ended PID: waits for it; $status is how it ended
ended() {
    status=0
    wait "$1" || status=$?
}

log_says() {
    grep -q -- "$1" work.log
}

has_state() {
    [ "$(state_of "$1")" = "$2" ]
}

# gated NAME: a shell line that says so, then waits for the file gate
gated() {
    echo "echo \$\$ >$PWD/$1.pid; until [ -e $PWD/gate ]; do sleep 0.02; done; echo $1 is through"
}

is_gone() {
    ! kill -0 "$1" 2>/dev/null
}
