# The same on PostgreSQL as keep.bats: TEND_TEST_PG_URL is a server; each test has a database of its own.
load helper
load running
load keeping

setup() {
    unset TEND_STATSD NOTIFY_SOCKET
    cd "$BATS_TEST_TMPDIR" || return
    started=()
    own_database keep
    tend migrate >/dev/null
}

teardown() {
    end_started
    drop_database
}

@test "patches come from the store: of all steps, of one, of the failed attempt" {
    patches_are_printed
}

@test "what an operator has changed becomes part of the step" {
    edits_are_taken_over
}

@test "what a killed worker left is shown and removed" {
    leftovers_are_removed
}
