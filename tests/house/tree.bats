# The files as files: short, finished, listed, formatted.

check() {
    "$TEND_SOURCE/tools/check-tree" "$@"
}

setup() {
    mkdir -p "$BATS_TEST_TMPDIR/src/base"
}

@test "every file is short, finished and listed" {
    check "$TEND_SOURCE"
}

@test "every C file is formatted" {
    "$TEND_SOURCE/tools/check-format"
}

@test "a file of 800 lines is seen" {
    seq 800 >"$BATS_TEST_TMPDIR/src/base/long.h"
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
    [ "$output" = "src/base/long.h: 800 lines; 799 are allowed" ]
}

@test "a file of 799 lines is fine" {
    seq 799 >"$BATS_TEST_TMPDIR/src/base/long.h"
    check "$BATS_TEST_TMPDIR"
}

@test "unfinished business is seen" {
    echo "/* FIX""ME */" >"$BATS_TEST_TMPDIR/src/base/a.h"
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
}

@test "a source that is not built is seen" {
    echo "files('b.c')" >"$BATS_TEST_TMPDIR/src/base/meson.build"
    touch "$BATS_TEST_TMPDIR/src/base/a.c" "$BATS_TEST_TMPDIR/src/base/b.c"
    run check "$BATS_TEST_TMPDIR"
    [ "$status" = 1 ]
    [ "$output" = "src/base/a.c: not in src/base/meson.build" ]
}

# Symptom: it was installed to another place than asked for.
@test "make install refuses PREFIX, which it does not honour" {
    run make -n -C "$TEND_SOURCE" install PREFIX=/opt/tend
    [ "$status" = 2 ]
    [[ "$output" == *"make install prefix=/opt/tend"* ]]
    make -n -C "$TEND_SOURCE" help PREFIX=/opt/tend
}
