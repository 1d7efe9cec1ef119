# For the tests of commands that run jobs; loaded behind helper.

DATAGRAMS=$TEND_BUILD/tests/cli/datagrams

setup() {
    unset TEND_STORE NO_COLOR TEND_RECOVERY_INTERVAL_MS TEND_STATSD NOTIFY_SOCKET WATCHDOG_USEC \
        WATCHDOG_PID JOURNAL_STREAM
    export HOME=$BATS_TEST_TMPDIR
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

# with_descriptors COUNT COMMAND…: in a folder and a store of its own; its output is in COUNT.log, its status in COUNT.status
with_descriptors() {
    local count=$1 status=0
    shift
    [ -z "${TEND_STORE:-}" ] || TEND_STORE+="&tend_schema=n$count"
    mkdir "$count"
    (
        cd "$count"
        tend add -- true
        ulimit -n "$count"
        exec timeout 30 "$TEND" "$@"
    ) >"$count.log" 2>&1 3>&- 4>&- 5>&- 6>&- || status=$?
    echo "$status" >"$count.status"
}

# end_without_descriptors FROM TO COMMAND…: with each number of descriptors the command ends, and says what is true
end_without_descriptors() {
    local from=$1 to=$2 count
    shift 2
    for ((count = from; count <= to; count++)); do
        with_descriptors "$count" "$@" &
    done
    wait
    tail -n 3 ./*.log
    for ((count = from; count <= to; count++)); do
        case $(cat "$count.status") in
        0) grep -q 'job [0-9]* is done' "$count.log" ;;
        1) grep -q 'Too many open files\|descriptors' "$count.log" ;;
        *) return 1 ;;
        esac
    done
    ! grep -l 'is /proc mounted\|is yours\|is the server running\|writable for you' ./*.log
    grep -q '^tend: this worker cannot claim jobs: .*Too many open files.*ulimit -n' ./*.log
}
