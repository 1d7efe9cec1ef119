# docs/contract.md names code and tests for every requirement, and the tests name it back.

check() {
    "$TEND_SOURCE/tools/check-contract" "$@"
}

# A tree in which everything is right.
setup() {
    root=$BATS_TEST_TMPDIR
    mkdir -p "$root/docs" "$root/src" "$root/tests"
    touch "$root/src/lock.c"
    rows=$(echo LK-{1..9} CL-{1..7} RC-{1..15} LS-{1..8} SH-{1..17} WF-7 BY-1 BY-2 BY-3 BY-4)
    for row in $rows; do
        echo "| $row | what it says | \`src/lock.c\` | \`tests/lock.c\` |" >>"$root/docs/contract.md"
        echo "/* $row */" >>"$root/tests/lock.c"
    done
}

@test "the contract is complete" {
    check "$TEND_SOURCE"
}

@test "a table in which everything is right passes" {
    check "$root"
}

@test "a missing row is seen" {
    sed -i '/RC-13/d' "$root/docs/contract.md"
    run check "$root"
    [ "$status" = 1 ]
    [ "$output" = "docs/contract.md: RC-13 is missing" ]
}

@test "a row without a test is seen" {
    sed -i 's/^| LK-1 .*/| LK-1 | what | src\/lock.c | |/' "$root/docs/contract.md"
    run check "$root"
    [ "$status" = 1 ]
    [[ "$output" == *"LK-1 has no test"* ]]
}

@test "a test file that does not exist is seen" {
    echo '| WF-1 | what | src/lock.c | tests/gone.c |' >>"$root/docs/contract.md"
    run check "$root"
    [ "$status" = 1 ]
    [[ "$output" == *"WF-1: no file tests/gone.c"* ]]
}

@test "a test that mentions RC-10 does not stand for RC-1" {
    sed -i '/RC-1 /d' "$root/tests/lock.c"
    run check "$root"
    [ "$status" = 1 ]
    [ "$output" = "docs/contract.md: RC-1: tests/lock.c does not mention it" ]
}

@test "a row in the name of a test is a mention" {
    echo '| WF-2 | what | src/lock.c | tests/heal.c |' >>"$root/docs/contract.md"
    echo 'TEST(flow, WF_2_a_loser_gets_a_conflict)' >"$root/tests/heal.c"
    check "$root"
}

@test "no table at all is seen" {
    rm "$root/docs/contract.md"
    run check "$root"
    [ "$status" = 1 ]
}
