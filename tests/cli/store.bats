# The store as a command meets it: which one, where, and in what condition. And the output.
load helper

@test "the store is chosen by --store, then TEND_STORE, then the default" {
    tend add --store sqlite:one.db >/dev/null
    TEND_STORE=sqlite:two.db tend add >/dev/null
    TEND_STORE=sqlite:two.db tend add --store sqlite:one.db >/dev/null
    [ ! -e .tend ]
    [ "$(tend stats --store sqlite:one.db --json | jq .jobs.pending)" = 2 ]
    [ "$(TEND_STORE=sqlite:two.db tend stats --json | jq .jobs.pending)" = 1 ]
}

@test "migrate makes the store and tells its schema" {
    run -0 --separate-stderr tend migrate
    [[ "$output" == "the store is at schema version "* ]]
    run -0 tend migrate --json
    json '.schema > 0 and .schema == .newest'
}

@test "migrate and doctor tell of a migration that was changed after it had run" {
    tend migrate >/dev/null
    sqlite3 .tend/tend.db "UPDATE migration SET checksum = 'x' WHERE version = 4"
    fails 1 tend migrate
    says "migration 4 was changed after it had run"
    run -1 tend doctor
    [[ "$output" == *'BAD  migrations: migration 4 was changed after it had run here'* ]]
    tend add >/dev/null
}

@test "doctor finds a fresh store well" {
    tend add >/dev/null
    run -0 tend doctor
    [ "${lines[0]}" = "ok   store: .tend/tend.db" ]
    [[ "${lines[-1]}" == "the store is well: "* ]]
    run -0 tend doctor --json
    json '.wrong == 0 and (.findings | length > 0) and (.findings | all(.verdict and .what and .text))'
}

# examine: doctor lists what is damaged, in words and as JSON; it does not advise to run 'tend doctor'
examine() {
    run --separate-stderr -1 tend doctor
    [ -z "$stderr" ]
    grep -q '^BAD  integrity: .*[Pp]age' <<<"$output"
    grep -q "put a backup in its place and run 'tend migrate --after-restore'" <<<"$output"
    [[ "$output" != *'tend doctor'* && "$output" != *"***"* ]]
    [ "$(grep -c '^BAD  integrity' <<<"$output")" -le 21 ]
    [[ "${lines[-1]}" == "something is wrong: "* ]]
    run --separate-stderr -1 tend doctor --json
    [ -z "$stderr" ]
    json '.wrong > 1 and ([.findings[] | select(.verdict == "wrong")] | length) == .wrong and
        any(.findings[]; .what == "integrity" and (.text | test("[Pp]age")))'
}

# It said "is damaged" of the first thing it could not read, listed nothing, and referred to itself.
@test "doctor lists what is damaged as far as it can be read: exit status 1" {
    seq 500 | sed 's/.*/{"payload":&}/' | tend add --batch - >/dev/null
    sqlite3 .tend/tend.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    cp .tend/tend.db good.db
    local pages at
    pages=$(($(stat -c %s good.db) / 4096))
    # Page by page, also those of the schema, without which the store cannot be opened.
    for ((at = 1; at < pages; at += 7)); do
        cp good.db .tend/tend.db
        tr '\0' '\245' </dev/zero | dd of=.tend/tend.db bs=4096 seek=$at count=1 iflag=fullblock conv=notrunc status=none
        examine
    done
    for at in 50 10 1; do
        cp good.db .tend/tend.db
        truncate -s $((at * 4096)) .tend/tend.db
        examine
    done
    # Only the doctor does.
    fails 1 tend jobs
    says "('tend doctor' lists what is damaged as far as it can be read)"
}

@test "durability normal works as well" {
    run -0 --separate-stderr tend --durability normal add
    [ "$output" = 1 ]
}

@test "a URL of no known kind is bad input" {
    fails 2 tend add --store mysql://x
    says "mysql"
    fails 2 tend add --store ''
    fails 2 tend jobs --store nonsense
}

@test "an explicit store that is not there is not made by what only reads" {
    fails 3 tend jobs --store sqlite:missing.db
    says "there is no store at missing.db; check the path, or make one there: 'tend migrate' with the same --store"
    [ ! -e missing.db ]
}

# It promised that 'tend migrate' makes one.
@test "a link that leads nowhere is told as such by what only reads" {
    mkdir .tend
    ln -s ../nowhere .tend/tend.db
    for store in '' '--store sqlite:.tend/tend.db'; do
        # shellcheck disable=SC2086
        fails 3 tend jobs $store
        says ".tend/tend.db is a symlink to a file that is not there, and tend makes no store through a link"
    done
    fails 69 tend add
    says ".tend/tend.db is a symlink"
    [ ! -e nowhere ]
}

@test "a path that leads nowhere" {
    run --separate-stderr tend add --store sqlite:no/such/folder/tend.db
    [ "$status" = 3 ] || [ "$status" = 69 ]
    [ "${#stderr_lines[@]}" = 1 ]
    says "no/such/folder"
}

@test "a server that is not there is exit status 69" {
    fails 69 tend add --store 'postgresql://127.0.0.1:1/none?connect_timeout=2'
    fails 69 tend jobs --store 'postgresql:///none?host=/nonexistent'
}

@test "a password in the URL is not shown" {
    fails 69 tend jobs --store 'postgresql://ann:sesame@127.0.0.1:1/none?connect_timeout=2'
    [[ "$stderr" != *sesame* ]]
}

@test "a file that is not a database" {
    echo 'these are not the bytes of a database, and there are enough of them to tell' >text.db
    fails 2 tend add --store sqlite:text.db
    says "text.db"
    [ "$(wc -c <text.db)" = 76 ]
    mkdir folder
    run --separate-stderr tend jobs --store sqlite:folder
    [ "$status" != 0 ]
    [ "${#stderr_lines[@]}" = 1 ]
}

@test "a database of somebody else" {
    sqlite3 other.db 'CREATE TABLE job (x); INSERT INTO job VALUES (1)'
    fails 2 tend add --store sqlite:other.db
    [ "$(sqlite3 other.db 'SELECT count(*) FROM sqlite_master')" = 1 ]
}

@test "a newer schema is refused with what to do" {
    tend add >/dev/null
    version=$(sqlite3 .tend/tend.db 'PRAGMA user_version')
    sqlite3 .tend/tend.db "PRAGMA user_version = $((version + 1))"
    fails 1 tend jobs
    says "newer"
    fails 1 tend add
    sqlite3 .tend/tend.db "PRAGMA user_version = $version"
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

# Root may write everywhere; then the rest of the test runs as somebody else.
as_nobody() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}

@test "a folder that cannot be written" {
    mkdir sealed
    chmod 555 sealed
    cd sealed
    fails 69 as_nobody "$TEND" add
    says "cannot make the folder .tend here"
    fails 69 as_nobody "$TEND" add --store sqlite:store.db
    says "Permission denied"
    cd ..
    chmod 755 sealed
}

@test "a store without permission is out of reach, for reading too" {
    tend add >/dev/null
    chmod a+rx . .. ../.. # up to the folder for all: the path is resolved
    for command in add jobs; do
        # the file
        chmod 755 .tend
        chmod 600 .tend/*
        fails 69 as_nobody "$TEND" $command
        says "tend.db cannot be read and written: Permission denied"
        # the file can be read, but not written
        chmod 444 .tend/*
        fails 69 as_nobody "$TEND" $command
        says "writable for you"
        # the folder
        chmod 700 .tend
        fails 69 as_nobody "$TEND" $command
        says "Permission denied"
        # the files can be written, but no companion can be made in the folder; it was 1
        chmod 755 .tend
        chmod 666 .tend/*
        fails 69 as_nobody "$TEND" $command
        says "cannot be written"
    done
    chmod -R u+w .tend
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

@test "what the store holds is for its owner alone" {
    umask 000
    tend add >/dev/null
    [ "$(stat -c %a .tend/* | sort -u)" = 600 ]
    tend doctor | grep -q 'only its owner can read the file'
    chmod 640 .tend/tend.db
    tend doctor | grep -q 'only its owner and group can read the file'
    chmod 644 .tend/tend.db
    tend doctor | grep -q 'every user of this machine can read'
    chmod 2770 .tend
    tend doctor | grep -q 'folder: mode 2770: its group can look into it; that is right for a store the group shares'
    chmod 755 .tend
    tend doctor | grep -q 'folder: mode 2755: every user of this machine can look into it'
}

# A reader needs a little room beside the store, for the index of the log. tend was killed by SIGXFSZ, without a word.
@test "a limit on the size of files while reading: one sentence" {
    tend add >/dev/null
    for command in jobs add; do
        fails 69 bash -c 'ulimit -f 8; "$0" $1' "$TEND" $command
        says "$(pwd -P)/.tend/tend.db or a file beside it would grow beyond the limit on the size of files"
        says "ulimit -f"
    done
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

# It ended with SIGXFSZ; with that signal ignored, with "disk I/O error" and exit status 1.
@test "a limit on the size of files: one sentence, nothing lost" {
    tend add >/dev/null
    payload=$(printf '"%s"' "$(printf 'x%.0s' {1..100000})")
    run --separate-stderr -69 bash -c 'ulimit -f 256; for n in 1 2 3 4 5 6 7 8 9 10; do "$0" add --payload "$1" || exit; done' "$TEND" "$payload"
    [ "${#stderr_lines[@]}" = 1 ]
    says "would grow beyond the limit on the size of files"
    acknowledged=${#lines[@]}
    [ "$(tend stats --json | jq .jobs.pending)" = $((acknowledged + 1)) ]
    tend add >/dev/null
}

@test "output that cannot be written is exit status 1, with a sentence" {
    tend add >/dev/null
    run -1 bash -c '"$0" jobs >/dev/full' "$TEND"
    [ "$output" = 'tend: cannot write the output: No space left on device' ]
    run -1 bash -c '"$0" help >/dev/full' "$TEND"
    run -1 bash -c '"$0" add >&-' "$TEND"
    [[ "$output" == *"Bad file descriptor"* ]]
}

@test "a bad setting in the environment is named" {
    TEND_RECOVERY_INTERVAL_MS=soon fails 2 tend add
    says TEND_RECOVERY_INTERVAL_MS
}

@test "many processes on one store never see it locked" {
    for _ in 1 2 3 4 5 6 7 8; do
        (for _ in 1 2 3 4 5 6 7 8 9 10; do tend add || exit 1; done) >>ids 2>>errors 3>&- &
    done
    wait
    run -1 grep -v '^tend: made store ' errors
    [ "$(sort -n ids | uniq | wc -l)" = 80 ]
}

@test "the folder of the default store is for its owner alone, whoever makes it" {
    umask 000
    tend add >/dev/null
    [ "$(stat -c %a .tend)" = 700 ]
    mkdir elsewhere
    cd elsewhere
    tend add --store sqlite:here.db -- true >/dev/null
    tend work --store sqlite:here.db --drain >/dev/null 2>&1
    [ "$(stat -c %a .tend .tend/run | sort -u)" = 700 ]
}

@test "doctor notes a folder that others can look into" {
    tend add >/dev/null
    run -0 tend doctor --json
    json '.findings[] | select(.what == "folder") | .verdict == "fine"'
    for mode in 750 701 755; do
        chmod $mode .tend
        run -0 tend doctor --json
        json '.findings[] | select(.what == "folder") | .verdict == "note" and (.text | contains("chmod 700 "))'
    done
    tend add --store sqlite:store.db >/dev/null # a folder that is not tend's is not looked at
    chmod 755 .
    run -0 tend doctor --store sqlite:store.db --json
    json '[.findings[] | select(.what == "folder")] == []'
}

# root ran a command on the store of a user, who then owned the file the link led to.
@test "a symlink in the place of a file of the store is refused, and its target left alone" {
    tend add >/dev/null
    echo secret >secret
    chmod 600 secret
    chmod 666 .tend/tend.db
    ln -sf ../secret .tend/tend.db-bell
    for command in add jobs; do
        fails 69 tend $command
        says "tend.db-bell is a symlink"
        says "remove it"
    done
    [ "$(stat -c %a secret)" = 600 ]
    [ "$(cat secret)" = secret ]
    rm .tend/tend.db-bell
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

@test "one store by two paths" {
    tend add >/dev/null
    ln -s .tend/tend.db link.db
    tend add --store sqlite:link.db >/dev/null
    [ "$(tend stats --json | jq .jobs.pending)" = 2 ]
    [ "$(echo link.db*)" = link.db ]
}

# It tried again and again, and said so once.
@test "a worker ends when its store was deleted, with a sentence" {
    tend add -- true >/dev/null
    tend work >out 2>err 3>&- &
    worker=$!
    done_all() { [ "$(tend stats --json | jq .jobs.done)" = 1 ]; }
    until_true done_all
    rm .tend/tend.db .tend/tend.db-wal .tend/tend.db-shm
    status=0
    wait $worker || status=$?
    cat err
    [ "$status" = 69 ]
    grep -q "was deleted or replaced while it was open" err
}

# It said that the store is away and that it goes on when it is back, and never did.
@test "events -f ends when its store was replaced, with a sentence" {
    tend add >/dev/null
    cp -r .tend copy
    tend events -f >out 2>err 3>&- &
    follower=$!
    until_true grep -q job.added out
    rm .tend/tend.db*
    mv copy/tend.db .tend/
    status=0
    wait $follower || status=$?
    cat err
    [ "$status" = 69 ]
    grep -q "was deleted or replaced while it was open" err
    run -1 grep -q "when it is back" err
}

# 'tend jobs' made a new store of it, and said that there were no jobs.
@test "who only reads makes no store of an empty file" {
    tend add >/dev/null
    rm -f .tend/tend.db-wal .tend/tend.db-shm
    truncate -s0 .tend/tend.db
    for command in jobs stats doctor "show 1"; do
        # shellcheck disable=SC2086 # words
        run tend $command
        [ "$status" != 0 ]
        [[ "$output" == *".tend/tend.db is empty: there is no store in it"* ]]
        [ ! -s .tend/tend.db ]
    done
    : >fresh.db
    run tend jobs --store sqlite:fresh.db
    [ "$status" != 0 ]
    [ "$(echo fresh.db*)" = fresh.db ]
    tend add >/dev/null
    [ "$(tend stats --json | jq .jobs.pending)" = 1 ]
}

# What it ran was tried to be saved until its lease was over.
@test "a worker with a job ends at once when its store was replaced" {
    tend add -- sh -c 'touch begun; sleep 60' >/dev/null
    tend work >out 2>err 3>&- &
    worker=$!
    begun() { [ -e begun ]; }
    until_true begun
    tend add --store sqlite:other.db >/dev/null
    rm .tend/tend.db-wal .tend/tend.db-shm
    mv other.db .tend/tend.db
    before=$SECONDS
    status=0
    wait $worker || status=$?
    cat err
    [ "$status" = 69 ]
    [ "$((SECONDS - before))" -lt 15 ]
    grep -q "was deleted or replaced while it was open" err
}

@test "migrate --after-restore begins a new generation of ids and tokens" {
    tend add >/dev/null
    claim
    old=$token
    least=$((($(date +%s) - $(date -d 2026-01-01T00:00:00Z +%s)) * 1000000))
    run -0 tend migrate --after-restore
    [[ "$output" =~ "a new generation has begun: new ids are at least "([0-9]+)", new tokens above "[0-9]+ ]]
    first=${BASH_REMATCH[1]}
    [ "$first" -ge "$least" ]
    [ "$(tend add)" -gt "$first" ]
    claim
    [ "$token" -gt "$((old + 1000000))" ]
    run -0 tend migrate --after-restore --json
    json ".first_id > $first + 1000000 and .token_base > $token"
}

# Each restore gave out the ids 2000000001, 2000000002, ... again, and tokens at random.
@test "a backup that is restored again gives other ids and larger tokens" {
    tend add >/dev/null
    sqlite3 .tend/tend.db ".backup backup.db"
    id=0
    token=0
    for _ in 1 2 3; do
        rm -f .tend/tend.db*
        cp backup.db .tend/tend.db
        chmod 600 .tend/tend.db
        tend migrate --after-restore
        before=$id
        id=$(tend add)
        [ "$id" -gt "$before" ]
        before=$token
        token=$(tend lock acquire l --owner me --json | jq .token)
        [ "$token" -gt "$before" ]
    done
}

# With a wrong path it made an empty store and said that all was well.
@test "migrate --after-restore wants a store that is there" {
    fails 3 tend migrate --after-restore
    says 'there is no store there; restore it from the backup first'
    [ ! -e .tend/tend.db ]
    fails 3 tend migrate --after-restore --store sqlite:nowhere.db
    says 'there is no store there; restore it from the backup first'
    [ ! -e nowhere.db ]
    run -0 tend migrate
}

# An empty value was answered with nothing between the quotes.
@test "a value that is no store URL is refused with the URL that may be meant" {
    fails 2 tend jobs --store jobs
    says "'jobs' is no store URL; did you mean sqlite:jobs?"
    fails 2 tend jobs --store ''
    says 'the store URL is empty; give sqlite:PATH or postgresql://HOST/DATABASE'
    fails 2 tend jobs --store mysql://me:secret@host/x
    says "'mysql…' is no store URL"
    fails 2 tend jobs --store 'postgresql://host/x?a=secret=c'
    says 'extra key/value separator; the form is'
    [[ "$stderr" != *secret* ]]
}

# The first printed the password, and a file of that name was suggested.
@test "of a value that is no store URL nothing is repeated that may be a password" {
    local value
    for value in 'host=127.0.0.1 password=secret' 'password = secret:x host=/tmp' 'dbname=x?password=secret'; do
        fails 2 tend jobs --store "$value"
        [[ "$stderr" != *secret* && "$stderr" != *sqlite:* ]]
        says 'a string of KEYWORD=VALUE is no store URL; give postgresql://USER@HOST:PORT/DATABASE'
    done
    for value in 'secret@host/x' '/tmp password=secret' '//me:secret@host/x' 'me secret:x@host'; do
        fails 2 tend jobs --store "$value"
        [[ "$stderr" != *secret* ]]
        says 'is no store URL; give sqlite:PATH or postgresql://HOST/DATABASE'
    done
}
