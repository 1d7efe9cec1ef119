# The test runner itself: nothing that goes wrong may look like success.

setup() {
    unset TEND_TEST_RESULTS TEND_TEST_TIMEOUT_S # ours, when we are run by run-tests
}

tap() {
    "$TEND_SOURCE/tools/run-tap" sample 10 "$@"
}

# The harness, with tests that fail in every way there is.
build_sample() {
    gcc -std=gnu17 -D_GNU_SOURCE -g -O1 "$@" -I "$TEND_SOURCE/tests" -o "$BATS_TEST_TMPDIR/sample" \
        "$TEND_SOURCE"/tests/house/samples/ways_to_end.c \
        "$TEND_SOURCE"/tests/support/test.c "$TEND_SOURCE"/tests/support/test_main.c -pthread
    run "$BATS_TEST_TMPDIR/sample"
    echo "$output"
    [ "$status" = 1 ]
}

said() {
    grep -Eq "$1" <<<"$output"
}

@test "a program whose cases all pass, passes" {
    run tap printf '1..2\nok 1 - a\nok 2 - b\n'
    [ "$status" = 0 ]
    [[ "$output" == *"sample: 2 passed, 0 failed" ]]
}

@test "a failing case is counted" {
    run tap printf '1..2\nok 1 - a\nnot ok 2 - b\n'
    [ "$status" = 1 ]
    [[ "$output" == *"sample: 1 passed, 1 failed" ]]
}

@test "cases that did not run are failures" {
    run tap sh -c 'echo 1..5; echo ok 1 - a; kill -SEGV $$'
    [ "$status" = 1 ]
    [[ "$output" == *"sample: 1 passed, 4 failed" ]]
}

@test "no TAP, no plan, an empty plan and a skipped case are failures" {
    for text in 'hello' 'ok 1 - a' '1..0' '1..1\nok 1 - a # skip no time'; do
        run tap printf "$text\n"
        [ "$status" = 1 ]
    done
}

@test "a status of trouble after good cases is a failure" {
    run tap sh -c 'echo 1..1; echo ok 1 - a; exit 3'
    [ "$status" = 1 ]
    [[ "$output" == *"exit status 3"*"sample: 1 passed, 1 failed" ]]
}

@test "a program that hangs is stopped and counted" {
    run "$TEND_SOURCE/tools/run-tap" sample 1 sh -c 'echo 1..2; echo ok 1 - a; sleep 60'
    [ "$status" = 1 ]
    [[ "$output" == *"stopped after 1 s"*"sample: 1 passed, 1 failed" ]]
}

@test "the harness sees every way to fail" {
    build_sample
    said '^ok [0-9]+ - end.passes'
    said '^ok [0-9]+ - end.has_a_folder_of_its_own'
    said '^not ok [0-9]+ - end.makes_no_check'
    said '^not ok [0-9]+ - end.fails_a_check'
    said 'check_int\(1 \+ 1 == 3\): 2 == 3'
    said '^not ok [0-9]+ - end.fails_a_check_in_a_thread'
    said '^not ok [0-9]+ - end.crashes'
    said '^not ok [0-9]+ - end.leaves_by_exit'
    said '^not ok [0-9]+ - end.waits_in_vain'
    said '^not ok [0-9]+ - end.hangs'
    said 'ran out of time'
}

@test "a process that a test leaves behind is ended, and a daemon too" {
    build_sample
    pids=$(sed -n 's/^#   left behind: //p' <<<"$output")
    [ "$(wc -l <<<"$pids")" = 2 ]
    for pid in $pids; do
        run kill -0 "$pid"
        [ "$status" = 1 ]
    done
}

@test "the harness sees a leak and an overflow under the address sanitizer" {
    build_sample -fsanitize=address,undefined -fno-sanitize-recover=all
    said '^ok [0-9]+ - end.passes'
    said '^not ok [0-9]+ - end.leaks'
    said '^not ok [0-9]+ - end.overflows'
}

@test "the harness sees a race under the thread sanitizer" {
    build_sample -fsanitize=thread
    said '^ok [0-9]+ - end.passes'
    said '^not ok [0-9]+ - end.races'
}

@test "with-postgres hands on the exit status and leaves nothing behind" {
    run env -u TEND_TEST_PG_URL "$TEND_SOURCE/tools/with-postgres" sh -c '
        psql -Atc "SELECT 6 * 7" "$TEND_TEST_PG_URL"; echo "$TEND_TEST_PG_URL"; exit 9'
    [ "$status" = 9 ]
    [ "${lines[0]}" = 42 ]
    folder=$(sed 's/.*host=\(.*\)&port.*/\1/' <<<"${lines[1]}")
    [[ "$folder" == /tmp/tend-pg.* ]]
    [ ! -e "$folder" ]
}
