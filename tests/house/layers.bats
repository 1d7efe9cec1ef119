# Each folder of src/ includes only from its left. TEND_SOURCE is the root of the repository.

check() {
    "$TEND_SOURCE/tools/check-layers" "$@"
}

# source LAYER/FILE LINE: a tree with one offending (or innocent) line
source_with() {
    mkdir -p "$BATS_TEST_TMPDIR/src/$(dirname "$1")"
    echo "$2" >"$BATS_TEST_TMPDIR/src/$1"
}

@test "the sources respect the layers" {
    check "$TEND_SOURCE"
}

@test "a folder may include itself, its left and the public header" {
    source_with queue/claim.c '#include "store/db.h"'
    source_with store/db.c '#include "store/db.h"'
    source_with base/err.c '#include <tend.h>'
    check "$BATS_TEST_TMPDIR"
}

@test "an include from the right is seen" {
    source_with core/state.c '#include "store/db.h"'
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
    [[ "$output" == *"src/core/state.c:1: core may not include from store"* ]]
}

@test "two folders of the same rank do not know each other" {
    source_with flow/submit.c '#include "run/worker.h"'
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
}

@test "an include that does not name its folder is seen" {
    source_with base/buf.c '#include "buf.h"'
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
}

@test "a database engine outside the store is seen" {
    source_with queue/claim.c '#include <sqlite3.h>'
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
}

@test "input and output in core is seen" {
    source_with core/state.c '#include <unistd.h>'
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
}
