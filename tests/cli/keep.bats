# tend patch, tend workspace, tend resume --keep-edits, and what is left on the disk (SH-7, SH-9, SH-10, SH-12).
load helper
load running
load keeping

@test "bad input" {
    tend add -- true >/dev/null
    fails 2 tend patch
    fails 2 tend patch x
    fails 3 tend patch 99
    fails 3 tend patch 1
    says "no step of it has succeeded"
    fails 3 tend patch 1 --failed
    says "has not failed"
    fails 2 tend workspace
    fails 3 tend workspace 99
    fails 4 tend workspace 1
    says "its payload names no repository"
    fails 2 tend resume 1 --from x
    says "--from goes with --keep-edits"
    fails 2 tend resume --keep-edits
    fails 2 tend resume 1 2 --keep-edits
    fails 2 tend resume --all --keep-edits
    fails 4 tend resume 1 --keep-edits
    says "no git workspace"
    run --separate-stderr -4 tend workspace 1 --json
    output=$stderr
    json '.error.code == "ESTATE"'
}

# Symptom: an unfinished {"job_id":1,"patches":[ stood on standard output before the error.
@test "without a patch there is nothing on standard output" {
    tend add -- true >/dev/null
    for option in '' --failed --stat; do
        run --separate-stderr -3 tend patch 1 --json $option
        [ -z "$output" ]
        output=$stderr
        json '.error.code == "ENOTFOUND"'
    done
}

@test "patches come from the store: of all steps, of one, of the failed attempt" {
    patches_are_printed
}

# It stays ignored through exec, and the kernel keeps no status of children then. Symptom: the step was done, its changes were missing.
@test "a git that fails is noticed also by a worker that was started with SIGCHLD ignored" {
    make_repo
    id=$(add_work '[{"run": "echo more >>kept; mkdir -p x/.GIT; echo no >x/.GIT/y"}]')
    run env --ignore-signal=CHLD "$TEND" work --drain
    has_state "$id" failed
    [[ "$output" == *"git "*" failed (status "* ]] || { echo "$output"; return 1; }
    other=$(add_work '[{"run": "echo more >>kept"}]')
    run -0 env --ignore-signal=CHLD "$TEND" work --drain
    [[ "$(tend patch "$other")" == *"+more"* ]]
}

# Symptom: no diff counted as none, the step was stuck after attempt 2, and its workspace was thrown away.
@test "a step whose changes git cannot read is not stuck, and the attempts say why" {
    make_repo
    id=$(add_work '[{"run": "mkdir -p x/.GIT; echo no >x/.GIT/y; echo more >>kept; exit 1"}]')
    TEND_STEP_PAUSE_SECONDS=0 tend work --drain >work.log || true
    run -0 tend show "$id" --json
    json '[.attempts[].verdict] == ["soft_reset", "soft_reset", "exhausted"]'
    json 'all(.attempts[]; .diff_hash == "unknown")'
    json 'all(.attempts[]; .warnings[0] | startswith("what it has changed could not be found: git "))'
    json 'all(.attempts[]; .evidence == null)'
}

@test "a step without a patch is told from one that is not there" {
    fail_work
    fails 3 tend patch "$id" --step test
    says "those with a checkpoint are: build"
    fails 3 tend patch "$id" --failed --step build
    says "of step build"
    plain=$(tend add -- true)
    tend work --drain >work.log
    fails 3 tend patch "$plain"
    says "no git workspace"
}

@test "a patch of any bytes comes out as it is" {
    make_repo
    id=$(add_work '[{"id": "a", "run": "printf \"caf\\351\\n\" >latin; printf \"a\\0b\" >binary"}]')
    tend work --drain >work.log
    tend patch "$id" >one.patch
    cmp one.patch ".tend/run/job-$id/patches/steps/step-0001.patch"
    run -0 tend patch "$id" --json
    json '.patches[0].encoding == "base64"'
    jq -r '.patches[0].patch' <<<"$output" | base64 -d | cmp - one.patch
    run -0 tend patch "$id" --stat
    [[ "$output" == *"A binary binary"* ]]
}

# Symptom: with "repo": "." the job failed in a worker that was started in another folder, and
# "tend workspace" said that the repository cannot be reached.
@test "a relative repository counts from the folder in which the job was added" {
    make_repo
    mkdir -p repo/deep elsewhere
    export TEND_STORE="sqlite:$PWD/tend.db"
    cd repo/deep
    plan='{"workspace": {"repo": ".."}, "steps": [{"id": "a", "run": "echo more >>kept"}, {"id": "b", "run": "cat kept; exit 64"}]}'
    id=$(tend add --payload "$plan")
    cd ../../elsewhere
    tend work --drain --folder "$PWD/run" >work.log
    [[ "$(tend patch "$id")" == *"+more"* ]]
    run -0 tend workspace "$id" --folder "$PWD/run"
    [ "$(cat "job-$id/kept")" = $'first\nmore' ]
    # A folder that this worker does not have is not its fault.
    gone=$(cd ../repo && tend add --payload "$plan" --workspace /no/such/folder)
    run -1 tend work --drain --folder "$PWD/run"
    run -0 tend explain "$gone"
    [[ "$output" == *"/no/such/folder"* ]]
}

@test "a job that has begun keeps its repository, whatever folder the next worker is in" {
    make_repo
    mkdir elsewhere
    export TEND_STORE="sqlite:$PWD/tend.db"
    cd repo
    id=$(tend add --no-folder --payload '{"workspace": {"repo": "."}, "steps": [{"id": "a", "run": "echo more >>kept"}, {"id": "b", "run": "test -e ../../../../go || exit 64"}]}')
    tend work --drain --folder "$PWD/../run" >../work.log
    has_state "$id" failed
    cd ../elsewhere
    run -0 tend workspace "$id" --folder "$PWD/../run"
    [ "$(cat "job-$id/kept")" = $'first\nmore' ]
    touch ../go
    tend control "$id" retry_step >/dev/null
    tend work --drain --folder "$PWD/../run" >../work.log
    has_state "$id" done
}

@test "a workspace is made again anywhere" {
    fail_work
    mkdir sub
    cd sub
    run -0 tend --store "sqlite:$PWD/../.tend/tend.db" workspace "$id"
    [ "$output" = "$PWD/job-$id" ]
    [ "$(cat "job-$id/kept")" = $'first\nmore' ]
    [ "$(git -C "job-$id" log --format=%s)" = one ]
    [ "$(git -C "job-$id" status --short)" = $' M kept\n?? made' ]
    [ ! -e "job-$id/half" ]
    cd ..
    [ -z "$(git -C repo status --short)" ]
    fails 4 tend workspace "$id" --at "sub/job-$id"
    says "is there already and not empty"
    mkdir empty
    run -0 tend workspace "$id" --step build --at empty --json
    json '.checkpoints == 0 and .before_step == "build" and (.commit | length) == 40'
    [ "$(cat empty/kept)" = first ]
    [ -z "$(git -C empty status --short)" ]
    ls -d ./*workspace* && return 1
    fails 3 tend workspace "$id" --step nothing
    run -0 tend workspace "$id" --at new/folders/too
    [ "$(cat new/folders/too/made)" = new ]
}

# Symptom: it borrowed from the copy in the cache, and lost its history when it had been moved and the copy was removed.
@test "a workspace that was made for people depends on nothing" {
    make_repo
    git -C repo commit -q --allow-empty -m two
    git -C repo gc -q
    git -C repo commit -q --allow-empty -m three
    id=$(add_work '[{"id": "build", "run": "echo more >>kept"}]')
    tend work --drain >work.log
    tend workspace "$id" --at mine
    [ ! -e mine/.git/objects/info/alternates ]
    [ -n "$(find mine/.git/objects -name '*.pack' -links +1)" ] # no bytes were copied
    rm -rf repo .tend
    mkdir elsewhere
    mv mine elsewhere/moved
    git clone -q elsewhere/moved cloned
    git -C elsewhere/moved fsck --full
    [ "$(git -C elsewhere/moved log --format=%s main)" = $'three\ntwo\none' ]
    [ "$(git -C elsewhere/moved diff --name-only)" = kept ]
    [ "$(git -C cloned log --format=%s | wc -l)" = 3 ]
}

@test "a repository that is out of reach is told, and what can be done" {
    fail_work
    mv repo moved
    rm -rf .tend/run/cache
    fails 1 tend workspace "$id"
    says "the repository of job $id cannot be reached from this machine"
    says "'tend patch $id'"
    [ ! -e "job-$id" ]
    # Symptom: the empty folder of --at was removed although nothing came to its place.
    mkdir mine
    fails 1 tend workspace "$id" --at mine/
    [ -d mine ]
    fails 4 tend workspace "$id" --at .
    fails 4 tend workspace "$id" --at ./mine/..
}

@test "a workspace before a step that has not come yet is refused" {
    make_repo
    id=$(add_work '[{"id": "a", "run": "exit 64"}, {"id": "b", "run": "true"}]')
    tend work --drain >work.log
    fails 4 tend workspace "$id" --step b
    says 'step "a" before it has not succeeded'
}

@test "what an operator has changed becomes part of the step" {
    edits_are_taken_over
}

@test "without --keep-edits the changes stay where they are, and that is said" {
    take_over
    echo repaired >>"$folder/kept"
    run --separate-stderr -0 tend resume "$id"
    [ "$output" = "1 job resumed" ]
    [[ "$stderr" == *"job $id goes on without the 1 file changed in $folder"*"--keep-edits --from $folder"* ]]
    grep -q repaired "$folder/kept"
    tend hold "$id" >/dev/null
    run --separate-stderr -0 tend resume "$id" --keep-edits --from "$folder" --json
    json '.count == 1 and .changed_files == 1 and .step_id == "test" and .patch_bytes > 0'
    tend work --drain >work.log
    has_state "$id" done
}

# The next 'tend heal' removed it.
@test "no workspace is made in the runner's folder" {
    take_over
    local at
    for at in .tend/run/mine .tend/run/deep/er/mine; do
        fails 2 tend workspace "$id" --at "$at"
        says "lies in the runner's folder "
    done
}

@test "edits of a folder that was made again, and none at all" {
    take_over
    run --separate-stderr -0 tend resume "$id"
    [ -z "$stderr" ]
    tend hold "$id" >/dev/null
    tend workspace "$id" --at mine
    run -0 tend resume "$id" --keep-edits --from mine
    [ "$output" = "1 job resumed; nothing was changed in mine" ]
    tend hold "$id" >/dev/null
    mkdir plain
    fails 2 tend resume "$id" --keep-edits --from plain
    says "is not a workspace"
    git init -q unrelated # its files would all have counted as deleted
    fails 4 tend resume "$id" --keep-edits --from unrelated
    says "unrelated is not a workspace of job $id: its repository does not have commit"
    fails 3 tend resume "$id" --keep-edits --from not-there
    echo repaired >>mine/kept
    tend resume "$id" --keep-edits --from mine
    fails 4 tend resume "$id" --keep-edits --from mine
    says "only held jobs"
    tend work --drain >work.log
    has_state "$id" done
    ls -d "${TMPDIR:-/tmp}"/tend-edits-* 2>/dev/null && return 1
    [ -d mine ]
}

@test "what a killed worker left is shown and removed" {
    leftovers_are_removed
}

@test "what belongs to another store is named and left alone" {
    fail_work
    mkdir -p .tend/run/job-77/lease-5 .tend/run/job-78/state
    echo 4711 >.tend/run/job-77/store
    run -0 tend doctor
    [[ "$output" == *"note other stores: 1 folder of a job ("*"of another store"*"left alone"* ]]
    [[ "$output" == *"note unmarked: 1 folder of a job ("* ]]
    tend queue set default --keep-workspace 0s >/dev/null
    run -0 tend heal
    [[ "$output" == *"1 folder of an ended attempt removed, "* ]]
    [ -d .tend/run/job-77/lease-5 ]
    [ -d .tend/run/job-78/state ]
}

# Symptom: the folder was taken for the job's, and removed with it.
@test "a folder of the user's with the name of a job's is left alone" {
    make_repo
    local i
    for i in 1 2 3 4 5; do
        mkdir -p "srv/job-$i/data"
        echo precious >"srv/job-$i/data/report.csv"
    done
    id=$(add_work '[{"id": "a", "run": "echo x >made"}]')
    [ "$id" -le 5 ]
    tend queue set default --keep-done 0s >/dev/null
    tend work --drain --folder srv >work.log
    [ "$(cat srv/job-?/data/report.csv | grep -c precious)" = 5 ]
    ls -d "srv/job-$id"-*
    tend purge >/dev/null
    run -0 tend heal --folder srv
    [[ "$output" == *"1 folder of a deleted job removed"* ]]
    [ "$(cat srv/job-?/data/report.csv | grep -c precious)" = 5 ]
    ls -d "srv/job-$id"-* && return 1
    git clone -q --bare repo srv/cache/app.git
    touch -d '40 days ago' srv/cache/app.git
    tend heal --folder srv
    tend add --no-folder -- true
    tend work --drain --folder srv >work.log
    git -C srv/cache/app.git fsck
}

@test "a folder of deleted jobs goes with them" {
    fail_work
    tend queue set default --keep-failed 0s >/dev/null
    run -0 tend heal
    [[ "$output" == *"1 job and "*" deleted"*"1 folder of a deleted job removed, "* ]]
    [ ! -e ".tend/run/job-$id" ]
    run -0 tend heal
    [ "$output" = "nothing is stale" ]
}

@test "heal says when another process cleans up, and when something cannot be removed" {
    fail_work
    exec 9>.tend/run/collect.lock
    flock 9
    run --separate-stderr -0 tend heal
    [[ "$stderr" == *"another process cleans up "*".tend/run at the moment"* ]]
    exec 9>&-
    run --separate-stderr -0 tend heal --folder nowhere
    [ -z "$stderr" ]
    [ ! -e nowhere ]
    run -0 tend doctor --folder nowhere
    [[ "$output" == *"note files: the folder that was given is not there"* ]]
}

# Symptom: "no workspace was kept of job 4", though show named one.
@test "resume --keep-edits names the workspace of a failed attempt" {
    fail_work
    folder=$(tend show "$id" --json | jq -r '.kept[0].workspace')
    fails 4 tend resume "$id" --keep-edits
    says "job $id is failed; only held jobs can be resumed. The workspace of its failed attempt is $folder"
    says "--keep-edits --from $folder"
    tend retry "$id" >/dev/null
    tend hold "$id" >/dev/null
    fails 4 tend resume "$id" --keep-edits
    says "was not taken over; the workspace of its failed attempt is $folder: give --from $folder"
    run -0 tend resume "$id" --keep-edits --from "$folder"
}

# Symptom: "1 workspace kept for people" of a job that never had a workspace.
@test "the mark of a failed attempt without a workspace is not counted as one" {
    id=$(tend add --payload '{"workspace": {"repo": "/nowhere/at/all"}, "steps": [{"id": "a", "run": "true"}]}')
    tend add --payload '{"run": "exit 65"}' >/dev/null
    tend work --drain >/dev/null
    [ "$(state_of "$id")" = failed ]
    run -0 tend doctor --json
    json '.disk.kept.count == 0 and .disk.left.count == 0'
}

# A git that waits before it does what $1 says, as long as the file slow is there; it makes the file hung.
slow_git() {
    local real
    real=$(command -v git)
    mkdir bin
    printf '#!/bin/sh\ncase " $* " in *" %s "*) touch %s; while test -e %s; do sleep 0.02; done;; esac\nexec %s "$@"\n' \
        "$1" "$PWD/hung" "$PWD/slow" "$real" >bin/git
    chmod +x bin/git
    PATH=$PWD/bin:$PATH
    touch slow
}

# The worker has read the order, and carries it out when git has ended.
order_is_known() {
    tend show "$id" --json | jq -e '[.. | .taken_at_ms? | numbers] | length > 0' >/dev/null
}

# Symptom: no attempt had begun, and "tend resume --keep-edits" said that the job was not taken over.
@test "the workspace of a job that was taken over before its first attempt is found" {
    make_repo
    slow_git read-tree
    id=$(add_work "$(jq -n --arg run "cat kept >$PWD/seen" '[{id: "a", $run}]')")
    start_worker
    until_true test -e hung
    tend control "$id" takeover >/dev/null
    until_true order_is_known
    rm slow
    until_true has_state "$id" held
    kill "$worker"
    ended "$worker"
    folder=$(find "$PWD/.tend/run" -maxdepth 3 -name 'workspace-*' ! -name '*.tend')
    echo repaired >>"$folder/kept"
    fails 3 tend resume "$id" --keep-edits --folder elsewhere
    says "give a folder with the edits with --from"
    run -0 tend resume "$id" --keep-edits
    [[ "$output" == "1 job resumed; step a goes on with 1 file changed in $folder ("* ]]
    tend work --drain >work.log
    [ "$(cat seen)" = $'first\nrepaired' ]
}

# Symptom: a workspace that was half made stayed beside its place, or in /tmp.
@test "a command that is stopped while it makes a workspace leaves nothing" {
    take_over
    slow_git read-tree
    mkdir tmp
    for command in "workspace $id" "resume $id --keep-edits" "resume $id"; do
        for signal in TERM HUP; do
            rm -f hung
            # shellcheck disable=SC2086
            TMPDIR=$PWD/tmp "$TEND" $command 3>&- &
            local pid=$!
            until_true test -e hung
            kill -"$signal" "$pid"
            local status=0
            wait "$pid" || status=$?
            [ "$status" = $((128 + $(kill -l "$signal"))) ]
            [ -z "$(ls tmp)" ]
            run -0 find . -maxdepth 1 '(' -name 'workspace-*' -o -name 'job-*' ')'
            [ -z "$output" ] || { echo "left by tend $command: $output"; return 1; }
            has_state "$id" held
        done
    done
}
