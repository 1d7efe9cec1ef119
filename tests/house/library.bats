# What is installed is what is promised: names, links, files.
# TEND_BUILD is a finished build folder.
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

@test "the library exports names that begin with tend_ and no others" {
    exported=$(nm -D --defined-only "$TEND_BUILD/libtend.so" | awk '{ print $3 }')
    [ -n "$exported" ]
    run -1 grep -v '^tend_' <<<"$exported"
}

@test "the library's name carries its version" {
    readelf -d "$TEND_BUILD/libtend.so" | grep -q 'SONAME.*\[libtend\.so\.0\]'
}

@test "the binary needs no libtend beside it" {
    run -1 grep 'NEEDED.*libtend' <(readelf -d "$TEND_BUILD/tend")
}

@test "binary, header, both libraries and tend.pc are installed" {
    installed
    find "$root" -path '*/bin/tend' -perm -100 | grep .
    find "$root" -path '*/include/tend.h' | grep .
    [ -f "$library_folder/libtend.so.0" ]
    [ -f "$library_folder/libtend.a" ]
    pkg-config --exists tend
}

@test "header and tend.pc agree on the version" {
    installed
    grep "define TEND_VERSION \"$(pkg-config --modversion tend)\"" "$TEND_SOURCE/include/tend.h"
}

@test "every manual page is installed" {
    installed
    for page in "$TEND_SOURCE"/docs/man/*.scd; do
        [ -f "$page" ] || continue
        find "$root" -name "$(basename "$page" .scd)" | grep .
    done
}
