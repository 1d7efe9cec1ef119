# Which store a command finds: in this folder or above, and whose.
load helper

@test "the store is found in the folders above, and no second one is made" {
    tend add >/dev/null
    mkdir -p a/b
    cd a/b
    run -0 --separate-stderr tend add
    [ "$output" = 2 ]
    [ -z "$stderr" ]
    [ ! -e .tend ]
    [ "$(tend stats --json | jq .jobs.pending)" = 2 ]
    echo '{}' | tend add --batch - >/dev/null
    tend lock acquire x -w ann >/dev/null
    tend schedule add s '@daily' -- true >/dev/null
    tend queue set q --paused on >/dev/null
    echo 'stages: [{id: a, run: "true"}]' | tend run - >/dev/null
    [ -z "$(find . -name .tend)" ]
}

@test "migrate makes a store here all the same, and says which one is no longer used" {
    tend add >/dev/null
    mkdir sub
    cd sub
    run -0 --separate-stderr tend migrate
    [ "$stderr" = "tend: made store $(pwd -P)/.tend/tend.db; from here it is used instead of $(cd .. && pwd -P)/.tend/tend.db" ]
    [ "$(tend stats --json | jq .jobs.pending)" = 0 ]
    run -0 --separate-stderr tend migrate
    [ -z "$stderr" ]
}

@test "a restored store is found above, too" {
    tend add >/dev/null
    mkdir sub
    cd sub
    tend migrate --after-restore >/dev/null
    [ ! -e .tend ]
}

@test "the search ends at the home folder" {
    tend add >/dev/null
    mkdir -p home/work
    cd home/work
    HOME=${PWD%/work} fails 3 tend jobs
    says "there is no store here (.tend/tend.db) or in a folder above; 'tend add' or 'tend migrate' makes one"
    tend jobs >/dev/null
}

@test "the search ends at the home folder, also when HOME is a link or ends with a slash" {
    tend add >/dev/null
    mkdir -p home/work
    ln -s home link
    top=$PWD
    cd home/work
    for home in "$top/link" "$top/home/" "$top/./home"; do
        HOME=$home fails 3 tend jobs
    done
}

@test "the search ends at the boundary of the file system" {
    mountpoint -q /dev/shm && [ -w /dev/shm ] || skip "no second file system"
    dir=$(mktemp -d /dev/shm/tend.XXXXXX)
    cd "$dir"
    HOME=/ fails 3 tend jobs
    rmdir "$dir"
}

@test "a worker in a folder below uses the run folder beside the store" {
    mkdir sub
    tend add -- true >/dev/null
    cd sub
    tend work --drain >/dev/null
    [ ! -e .tend ]
    [ -d ../.tend/run ]
    cd ..
    mkdir other
    cd other
    tend work --drain --store "sqlite:$HOME/.tend/tend.db" >/dev/null
    [ ! -e .tend ]
    # A store with a folder of its own has no run folder beside it.
    tend add --store my.db -- true >/dev/null
    tend work --store my.db --drain >/dev/null
    [ -d .tend/run ]
    [ ! -e run ]
}

@test "a path is a store, with a slash, a usual ending, or where a file is" {
    for store in my.db ./other "$PWD/third.sqlite"; do
        run -0 --separate-stderr tend add --store "$store"
        [[ "$stderr" == "tend: made store $(pwd -P)/"* ]]
        [ "$(tend stats --store "$store" --json | jq .jobs.pending)" = 1 ]
        [ "$(TEND_STORE=$store tend stats --json | jq .jobs.pending)" = 1 ]
    done
    [ -e my.db ] && [ -e other ] && [ -e third.sqlite ] && [ ! -e .tend ]
    tend jobs --store other >/dev/null
    fails 3 tend jobs --store /nowhere/x.db
    fails 2 tend jobs --store nonsense
    says "'nonsense' is no store URL; did you mean sqlite:nonsense?"
    fails 2 tend add --store posgresql://host/x
    says "'posgresql…' is no store URL"
    fails 2 tend add --store posgresql:x.db
    [ "$(ls -A)" = "$(ls -A | grep -v posgres)" ]
}

@test "what begins as a path is a path, whatever marks of a URL it has" {
    mkdir a@b x=y q
    cd q
    for store in "$HOME/a@b/my.db" ../x=y/my.db ./c:d.db ./e?f; do
        run -0 tend add --store "$store"
        [ -f "$store" ]
        [ "$(TEND_STORE=$store tend stats --json | jq .jobs.pending)" = 1 ]
    done
    [ ! -e .tend ]
}

# "tend --store /var/lib/tend/.tend/tend.db add" failed until somebody had made .tend.
@test "a named store in a folder .tend makes this folder, for its owner alone" {
    mkdir sub
    for store in sub/.tend/tend.db "sqlite:$PWD/.tend/tend.db"; do
        fails 3 tend jobs --store "$store"
        tend add --store "$store" >/dev/null
    done
    [ "$(stat -c %a sub/.tend .tend | uniq)" = 700 ]
    fails 69 tend add --store other/.tend/tend.db
    fails 69 tend add --store sub/other/tend.db
    [ ! -e other ] && [ ! -e sub/other ]
}

# A store in a folder where everybody may write, as /tmp, would run its owner's commands.
@test "a store of another user is refused, unless it is named" {
    [ "$(id -u)" = 0 ] || skip "only root can make files of others"
    tend add >/dev/null
    mkdir sub
    chown 65534 .tend/tend.db
    for folder in . sub; do
        cd "$folder"
        for command in add jobs "work --drain"; do
            # shellcheck disable=SC2086
            fails 69 tend $command
            says ' belongs to nobody, not to you; if you trust it, name it: --store '
        done
        cd "$HOME"
    done
    cd sub
    says "the store \"$HOME/.tend/tend.db\" belongs to nobody"
    [ "$(tend stats --store ../.tend/tend.db --json | jq .jobs.pending)" = 1 ]
    # Who has called sudo is trusted.
    [ "$(SUDO_UID=65534 tend stats --json | jq .jobs.pending)" = 1 ]
    SUDO_UID=65533 fails 69 tend jobs
    # A store of one's own can be made below it.
    tend migrate >/dev/null
    [ "$(tend stats --json | jq .jobs.pending)" = 0 ]
}

@test "no store is made in a folder .tend of another user, nor one reached through its link" {
    [ "$(id -u)" = 0 ] || skip "only root can make files of others"
    mkdir .tend
    chown 65534 .tend
    fails 69 tend add
    says 'the store ".tend/tend.db" belongs to nobody'
    [ -z "$(ls -A .tend)" ]
    mkdir mine
    mv .tend theirs
    ln -s mine .tend
    chown -h 65534 .tend
    fails 69 tend add
    chown -h 0 .tend
    run -0 --separate-stderr tend add
    [ -e mine/tend.db ]
}

@test "completion asks no store of another user" {
    [ "$(id -u)" = 0 ] || skip "only root can make files of others"
    tend add -q mail >/dev/null
    [[ "$(tend __complete jobs --queue '')" == mail* ]]
    chown 65534 .tend
    [ -z "$(tend __complete jobs --queue '')" ]
}

# Symptom: in a git repository the store showed up as an untracked folder.
@test "a folder that tend makes for its store is ignored by git, one that was there is left alone" {
    git init -q repo
    cd repo
    tend add >/dev/null
    [ -z "$(git status --porcelain)" ]
    [ "$(cat .tend/.gitignore)" = '*' ]
    git init -q ../other
    cd ../other
    mkdir .tend
    tend add >/dev/null
    [ ! -e .tend/.gitignore ]
}

# Symptom: the hint for a folder was a URL that is refused, too.
@test "a folder is no store, and the one in it is proposed" {
    tend add >/dev/null
    fails 2 tend jobs --store .
    says '"." is a folder; the store in it is "./.tend/tend.db": --store ./.tend/tend.db'
    tend jobs --store ./.tend/tend.db
    for store in .tend .tend/ sqlite:.tend; do
        fails 2 tend jobs --store "$store"
        says 'the store in it is ".tend/tend.db": --store .tend/tend.db'
    done
    mkdir empty
    fails 2 tend add --store "$PWD/empty"
    says "is a folder and has no store; a store is a file, such as --store $PWD/empty/.tend/tend.db"
}
