# Shared by the tests of the command line. TEND is the binary; each test starts in an empty folder
# of its own, where the default store is made on first use: the search for one ends there, at $HOME.
bats_require_minimum_version 1.5.0

TEND=${TEND:-$TEND_BUILD/tend}

tend() {
    "$TEND" "$@"
}

setup() {
    unset TEND_STORE NO_COLOR TEND_RECOVERY_INTERVAL_MS
    export HOME=$BATS_TEST_TMPDIR
    export TEND_STEP_PAUSE_SECONDS=0 # tests of the pause set one
    cd "$BATS_TEST_TMPDIR" || return
}

# fails STATUS tend …: the command has this exit status, prints nothing on standard output and one
# sentence on standard error, which is left in $stderr.
fails() {
    local wanted=$1
    shift
    run --separate-stderr -"$wanted" "$@"
    [ -z "$output" ] || { echo "unexpected output: $output"; return 1; }
    [ "${#stderr_lines[@]}" = 1 ] || { echo "not one sentence: $stderr"; return 1; }
    [[ "$stderr" == "tend: "* ]] || { echo "no sentence: $stderr"; return 1; }
}

# says TEXT: the sentence of the last `fails` contains it
says() {
    [[ "$stderr" == *"$1"* ]] || { echo "\"$1\" is not in: $stderr"; return 1; }
}

# json FILTER: the last output (or standard input with -) satisfies a jq condition
json() {
    # Of nothing, jq -e says that it is so.
    { [ -n "$output" ] && jq -e "$1" <<<"$output" >/dev/null; } || { echo "not so: $1"; echo "$output"; return 1; }
}

# claim …: claims a job; $lease, $id and $token are its lease
claim() {
    job=$(tend claim "$@") || return
    lease=$(jq -r .lease <<<"$job")
    id=$(jq -r .id <<<"$job")
    token=$(jq -r .token <<<"$job")
}

state_of() {
    tend show "$1" --json | jq -r .job.state
}

# until_true COMMAND…: waits for a condition, at most ten seconds
until_true() {
    local tries
    for ((tries = 0; tries < 1500; tries++)); do
        "$@" && return
        sleep 0.02
    done
    echo "never came true: $*"
    return 1
}
