# A disk that is full when a command begins. On SQLite.
load helper

# on_small_disk FUNCTION: runs it in a folder of 2 MiB, in a namespace of its own so that nobody else sees the mount (as
# tests/support/mounts.c).
on_small_disk() {
    # shellcheck disable=SC2016  # it is expanded there
    local own='{ mount --make-rprivate / 2>/dev/null || ! grep -q " shared:" /proc/self/mountinfo; } &&
        mount -t tmpfs -o size=2m tmpfs disk && cd disk'
    mkdir disk
    unshare --mount --propagation unchanged bash -c "$own" 2>/dev/null || skip "no file system can be mounted here"
    export TEND
    export -f tend fill status begin waits until_true "${1?}"
    unshare --mount --propagation unchanged bash -c "$own && set -e || exit; $1"
}

fill() {
    dd if=/dev/zero of=ballast bs=4k 2>/dev/null || true
}

# status STATUS COMMAND…
status() {
    local wanted=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" = "$wanted" ] || { echo "status $status: $*"; return 1; }
}

# begin COMMAND…: starts it with its words in ../said, which holds none of an earlier command by then
begin() {
    : >../said
    "$TEND" "$@" 2>../said &
}

# waits COMMAND…: it says that it tries again, and ends with status 0 once there is room
waits() {
    begin "$@"
    until_true grep -q 'tried again every second: .*no space left' ../said
    rm ballast
    status 0 wait $!
    [ "$(grep -c 'every second' ../said)" = 1 ]
    fill
}

wait_for_room() {
    tend add -q first --payload '{"run": "true"}' >/dev/null
    fill
    status 69 tend claim -q first -w me --wait 2s 2>../said
    grep -q 'tried again every second: .*no space left' ../said
    [ "$(tail -n 1 ../said)" = "$(sed -n '1s/this is tried again every second: //p' ../said)" ]
    SECONDS=0
    status 69 tend claim -q first -w me
    [ "$SECONDS" -lt 20 ]
    waits claim -q first -w me --wait 100s --ttl 1ms
    waits lock acquire deploy -w me --wait
    waits work -q first --drain --folder ../run
    # A worker that is to end by itself does not wait for ever.
    SECONDS=0
    status 69 tend work -q first --drain --folder ../run >../said 2>&1
    [ "$SECONDS" -ge 5 ]
    [ "$SECONDS" -lt 60 ]
    tail -n 1 ../said | grep -q 'no space left'
    begin lock acquire deploy -w me --wait
    until_true grep -q 'every second' ../said
    kill -TERM $!
    status 143 wait $!
    # The wait ends with the process that it is for.
    sleep 100 &
    sleeper=$!
    begin claim -q first -w me --wait --while-pid "$sleeper"
    until_true grep -q 'every second' ../said
    kill "$sleeper"
    status 69 wait $!
}

# They ended at once, unless another process had the store open.
@test "on a full disk a command that waits waits for room, also to open the store" {
    on_small_disk wait_for_room
}
