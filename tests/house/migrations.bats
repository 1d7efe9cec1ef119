# Migrations that were released are not edited: a store that has run one never runs it again.

@test "released migrations are as they were released" {
    cd "$TEND_SOURCE/src/store/sql/migrations"
    sha256sum --check --strict --quiet "$TEND_SOURCE/tests/house/migrations.sha256"
}

@test "every migration but the newest is in the list of those that were released" {
    cd "$TEND_SOURCE/src/store/sql/migrations"
    newest=$(ls ./*.sql | sort | tail -n 1 | sed 's/^..//; s/[.].*//')
    ls ./*.sql | sed 's/^..//' | grep -v "^$newest" | sort >"$BATS_TEST_TMPDIR/there"
    sed 's/.* //' "$TEND_SOURCE/tests/house/migrations.sha256" | sort >"$BATS_TEST_TMPDIR/listed"
    diff "$BATS_TEST_TMPDIR/there" "$BATS_TEST_TMPDIR/listed"
}
