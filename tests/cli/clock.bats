# BY-9 through the real binary: a wall clock that is set while workers run, and one that is wrong in one command.

load helper
load running

setup() {
    unset TEND_STORE TEND_RECOVERY_INTERVAL_MS
    cd "$BATS_TEST_TMPDIR" || return
    started=()
    export TEND_TEST_CLOCK=$PWD/wrong_by
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
    set_clock 0
}

teardown() {
    end_started
}

set_clock() { # SECONDS: by so many the wall clock is wrong from now on
    echo "$1" >wrong_by.new
    mv wrong_by.new wrong_by
}

clocked() { # tend …, with that clock
    LD_PRELOAD=$TEND_BUILD/tests/cli/wrong_clock.so "$TEND" "$@"
}

count_jobs() { # STATE NUMBER: so many are in it
    [ "$(tend jobs --state "$1" --json | wc -l)" = "$2" ]
}

steps_seen() { # NUMBER
    [ "$(clocked events --json | grep -c '"clock.stepped"')" = "$1" ]
}

# Three steps of ten minutes made poison of all four jobs, though nobody had died.
@test "BY-9: a clock that is set forward while workers run takes no job from them" {
    tend queue set default --lease 3s >/dev/null
    for i in 1 2; do
        clocked work -c 2 --name "worker-$i" >"work-$i.log" 2>&1 3>&- &
        started+=("$!")
        tend add -- sh -c 'until [ -e go ]; do sleep 0.05; done' >/dev/null
        tend add -- sh -c 'until [ -e go ]; do sleep 0.05; done' >/dev/null
    done
    until_true count_jobs running 4
    for i in 1 2 3; do
        set_clock $((i * 600))
        until_true steps_seen "$i"
        clocked heal >/dev/null
        count_jobs running 4
    done
    touch go
    until_true count_jobs done 4
    tend jobs --json | jq -es 'map(.crashes) == [0, 0, 0, 0]'
    ! clocked events --json | grep -E 'job.(recovered|quarantined)'
}

heal_elsewhere() { # WORD…: clocked heal, run by these words; 77: that is not permitted here
    "$@" true 2>/dev/null || return 77
    LD_PRELOAD=$TEND_BUILD/tests/cli/wrong_clock.so "$@" "$TEND" heal
}

without_proc() { # WORD…: a sanitizer reads its options from /proc and cannot do without
    ! ldd "$TEND" | grep -q 'lib[at]san' || return 77
    unshare --mount sh -c 'umount -l /proc && exec "$@"' sh "$@"
}

# A container with a time namespace, or without /proc, did not know whose clock it had before it, and took the lease.
@test "BY-9: a clock that is set forward ends no lease, whichever container notices it" {
    for elsewhere in 'unshare --time --boottime 100000 --monotonic 100000' without_proc; do
        tend add >/dev/null
        lease=$(clocked claim -w ann --ttl 1h | jq -r .lease)
        set_clock $(($(cat wrong_by) + 7200))
        status=0
        # shellcheck disable=SC2086  # words
        heal_elsewhere $elsewhere || status=$?
        [ "$status" = 0 ] || [ "$status" = 77 ]
        clocked heartbeat "$lease"
        clocked complete "$lease"
    done
}

# Store time stood still for two hours: leases, retries and delays with it, and doctor found the store well.
@test "one command with a clock that is two hours ahead stops nothing" {
    tend add -- true >/dev/null
    set_clock 7200
    clocked add -q other -- true >/dev/null
    set_clock 0
    claim --ttl 2s
    first=$id
    tend add -q delayed --in 2s -- true >/dev/null
    tend claim -q delayed --wait 20s >/dev/null
    claim --wait 20s
    [ "$id" = "$first" ]
    tend fail "$lease" --retry-in 1s >/dev/null
    claim --wait 20s
    [ "$id" = "$first" ]
    run tend doctor
    [[ "$output" =~ note.*"clock: store time is "(2h|1h 59m).*"ahead of this machine's clock" ]]
}
