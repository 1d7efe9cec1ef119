# tend top, tend logs -f, tend events -f and tend wait while the store is away: PostgreSQL, where that happens.
load helper
load running
load terminal

setup() {
    unset NO_COLOR
    cd "$BATS_TEST_TMPDIR" || return
    started=()
    own_database away
    id=$(tend add -q somewhere)
}

teardown() {
    end_started
    drop_database
}

# Nobody gets in, and who was in is thrown out: to those, the server is down.
goes_down() {
    psql -qX "$TEND_TEST_PG_URL" -c "ALTER DATABASE $name ALLOW_CONNECTIONS false"
    psql -qX "$TEND_TEST_PG_URL" -o /dev/null \
        -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '$name'"
}

comes_back() {
    psql -qX "$TEND_TEST_PG_URL" -c "ALTER DATABASE $name ALLOW_CONNECTIONS true"
}

# The server takes questions and answers none, until `answers`.
falls_silent() {
    rm -f silenced
    mkfifo silence
    psql -qX "$TEND_STORE" <silence >silenced 3>&- &
    started+=($!)
    exec 8>silence
    echo 'BEGIN; LOCK TABLE tend.job IN ACCESS EXCLUSIVE MODE; SELECT 1;' >&8
    until_true test -s silenced
}

answers() {
    echo 'ROLLBACK;' >&8
    exec 8>&-
    rm silence
}

# at_once COMMAND…: it takes well under a second
at_once() {
    local before=${EPOCHREALTIME/./}
    "$@"
    local took=$((${EPOCHREALTIME/./} - before))
    [ "$took" -lt 900000 ] || { echo "took $took us"; return 1; }
}

@test "top says since when the store is away, and goes on when it is back" {
    start_on_terminal "$(with_pid top)"
    until_true sees somewhere
    goes_down
    until_true sees 'the store is away since 2'
    comes_back
    tend add -q elsewhere >/dev/null
    until_true sees elsewhere
    press q
    terminal_ended
    [ "$status" = 0 ]
}

@test "top is ended at once by q, ^C and SIGTERM while there is no answer" {
    ends() {
        start_on_terminal "$(with_pid top)"
        until_true sees somewhere
        falls_silent
        until_true sees 'the store is away since 2'
        at_once ends_by "$1"
        answers
        [ "$status" = 0 ]
        tail -c 30 seen | grep -q $'\033\\[?1049l'
    }
    ends_by() {
        case $1 in
        TERM) kill -TERM "$(cat pid)" ;;
        *) press "$1" ;;
        esac
        terminal_ended
    }
    ends q
    ends '\003'
    ends TERM
}

# The first look has no answer either.
@test "top without any answer says so, too" {
    falls_silent
    start_on_terminal "$(with_pid top)"
    until_true sees 'the store is away since 2'
    press q
    at_once terminal_ended
    answers
    [ "$status" = 0 ]
}

# follow COMMAND…: in the background, with a connection
follow() {
    rm -f followed said
    "$TEND" "$@" >followed 2>said 3>&- &
    follower=$!
    started+=("$follower")
    connected() {
        [ "$(psql -qAtX "$TEND_TEST_PG_URL" -c "SELECT count(*) FROM pg_stat_activity WHERE datname = '$name'")" -gt 0 ]
    }
    until_true connected
}

# SH-16
@test "logs -f says since when the store is away, and goes on when it is back" {
    follow logs -f "$id"
    goes_down
    until_true grep -q 'logs: the store is away since 2' said
    comes_back
    until_true grep -q 'the store is back' said
    claim -q somewhere -w me
    tend complete "$lease" >/dev/null
    ended "$follower"
    [ "$status" = 0 ]
    [ "$(grep -c 'is away' said)" = 1 ]
}

@test "events -f says since when the store is away, and goes on when it is back" {
    follow events -f
    until_true grep -q job.added followed
    goes_down
    until_true grep -q 'events: the store is away since 2' said
    comes_back
    until_true grep -q 'the store is back' said
    tend add -q elsewhere >/dev/null
    until_true grep -q elsewhere followed
    kill -TERM "$follower"
    ended "$follower"
    [ "$status" = 143 ]
}

@test "logs -f and events -f are ended at once by a signal while there is no answer" {
    follow logs -f "$id"
    falls_silent
    until_true grep -q 'the store is away since 2' said
    kill -INT "$follower"
    at_once ended "$follower"
    answers
    [ "$status" = 130 ]
    follow events -f
    until_true grep -q job.added followed
    goes_down
    until_true grep -q 'the store is away since 2' said
    kill -INT "$follower"
    at_once ended "$follower"
    [ "$status" = 130 ]
    comes_back
}

@test "wait says since when the store is away, and goes on when it is back" {
    "$TEND" wait "$id" >waited 2>said 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true listens
    goes_down
    until_true grep -q 'wait: the store is away since 2' said
    comes_back
    tend cancel "$id" >/dev/null
    ended "$waiter"
    [ "$status" = 1 ]
    grep -qx 'tend: wait: the store is back' said
    grep -qx "tend: job $id was cancelled" said
}

# listens: somebody other than this question is connected
listens() {
    [ "$(psql -qAtX "$TEND_TEST_PG_URL" -c "SELECT count(*) FROM pg_stat_activity WHERE datname = '$name'")" -gt 0 ]
}

@test "wait gives up after --timeout also while there is no answer" {
    "$TEND" wait "$id" --timeout 3s >waited 2>said 3>&- &
    waiter=$!
    started+=("$waiter")
    until_true listens
    falls_silent
    ended "$waiter"
    answers
    [ "$status" = 5 ]
    [[ "$(tail -n 1 said)" == *' not ended within 3s'* || "$(tail -n 1 said)" == *"job $id is still pending after 3s" ]]
}
