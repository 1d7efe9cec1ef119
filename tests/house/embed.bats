# A program is built against an installed copy, as a user would do it. TEND_BUILD is a finished build.
bats_require_minimum_version 1.5.0

installed() {
    root=$BATS_FILE_TMPDIR/root
    library_folder=$(dirname "$(find "$root" -name libtend.so)")
    export PKG_CONFIG_PATH=$library_folder/pkgconfig
    export PKG_CONFIG_SYSROOT_DIR=$root
    export LD_LIBRARY_PATH=$library_folder
}

setup_file() {
    meson install -C "$TEND_BUILD" --no-rebuild --quiet --destdir "$BATS_FILE_TMPDIR/root"
}

# build_and_run LINKER_ARGUMENT…
build_and_run() {
    cd "$BATS_TEST_TMPDIR" || return
    # shellcheck disable=SC2046  # lists of words
    gcc -std=c99 -Wall -Wextra -Werror $(pkg-config --cflags tend) "$TEND_SOURCE/examples/embed.c" \
        -o embed "$@"
    ./embed
}

@test "a program is built against the installed library and runs" {
    installed
    # shellcheck disable=SC2046
    build_and_run $(pkg-config --libs tend)
    readelf -d embed | grep -q 'NEEDED.*libtend\.so\.0'
}

# The linker takes libtend.a where there is no libtend.so.
@test "a program is linked with the static library and runs" {
    installed
    cp -r "$root" "$BATS_TEST_TMPDIR/static"
    rm "$BATS_TEST_TMPDIR/static${library_folder#"$root"}"/libtend.so*
    export PKG_CONFIG_SYSROOT_DIR=$BATS_TEST_TMPDIR/static
    # shellcheck disable=SC2046
    build_and_run $(pkg-config --static --libs tend)
    run -1 grep 'NEEDED.*libtend' <(readelf -d embed)
}
