# Another program that has the write lock of the store and does not stand in tend's line. On SQLite.
load helper
load running

# lock_store: $stranger has a write transaction open, until `let_go`
lock_store() {
    mkfifo orders
    sqlite3 .tend/tend.db <orders >locked 3>&- &
    stranger=$!
    started+=("$stranger")
    exec 8>orders
    echo "BEGIN IMMEDIATE; SELECT 'locked';" >&8
    until_true test -s locked
}

let_go() {
    echo 'ROLLBACK;' >&8
    exec 8>&-
}

# It came back after 50 s.
@test "a claim behind another program's lock says who it is, in its time" {
    tend add -q first >/dev/null
    lock_store
    SECONDS=0
    run --separate-stderr -69 tend claim -q first -w me --wait 2s
    [ "$SECONDS" -lt 20 ]
    says "process $stranger (sqlite3) has locked the file"
    let_go
    tend claim -q first -w me --wait 20s
}

# It said "the store is well" while no write could succeed, and named the program only while another tend waited for it.
@test "the doctor names another program that has locked the store" {
    tend add -q first >/dev/null
    lock_store
    run -1 tend doctor
    [[ "$output" == *"BAD  write lock: process $stranger (sqlite3) has locked the file"*"end its transaction"* ]]
    "$TEND" claim -q first -w me --wait 2>waiting &
    started+=($!)
    until_true grep -q 'has locked the file' waiting
    run -1 tend doctor --json
    json "any(.findings[]; .what == \"write lock\" and .verdict == \"wrong\" and (.text | test(\"$stranger .sqlite3.\")))"
    let_go
    wait $!
    run -0 tend doctor
    [[ "$output" == *'ok   write lock: in force'* ]]
}

# The lease ended, the first who could write took the job and charged a crash, and the command ran twice.
@test "BY-9: a step goes on for longer than its lease while another program has locked the store" {
    tend queue set first --lease 8s
    start_worker -q first
    id=$(tend add -q first --payload '{"run": "echo begun >> ran; sleep 14; echo ended >> ran"}')
    until_true grep -q begun ran
    lock_store
    until_true log_says "leases cannot be extended: .*process $stranger (sqlite3) has locked the file"
    until_true log_says "nobody can write to the store: no lease ends meanwhile"
    until_true grep -q ended ran
    tend explain "$id" >why
    grep -q "Nobody could write to the store for" why
    let_go
    until_true has_state "$id" "done"
    until_true log_says "the store can be written again"
    [ "$(cat ran)" = $'begun\nended' ]
    tend show "$id" --json >job.json
    [ "$(jq -c '[(.attempts | length), .job.crashes]' job.json)" = '[1,0]' ]
}
