# What the tests of patches, kept workspaces and leftovers share, on both stores; loaded behind running.

# A repository with one commit.
make_repo() {
    git init -q -b main repo
    git -C repo config user.email a@b
    git -C repo config user.name n
    printf 'first\n' >repo/kept
    echo ignored >repo/.gitignore
    git -C repo add .
    git -C repo commit -qm one
}

# add_work STEPS: a job with these steps in a workspace of it
add_work() {
    tend add --max-attempts 1 --payload "$(jq -n --arg repo "$PWD/repo" --argjson steps "$1" \
        '{workspace: {repo: $repo}, steps: $steps}')"
}

workspaces() {
    find .tend/run -maxdepth 3 -name 'workspace-*' ! -name '*.tend' | wc -l
}

# A job whose first step succeeds and whose second one fails; $id is its id.
fail_work() {
    make_repo
    id=$(add_work '[{"id": "build", "run": "echo more >>kept; echo new >made"},
                    {"id": "test", "run": "echo half >half; exit 64"}]')
    tend work --drain >work.log
    has_state "$id" failed
}

patches_are_printed() {
    fail_work
    run -0 tend patch "$id"
    [[ "$output" == *"+more"*"+new"* ]]
    git -C repo apply <(tend patch "$id")
    [ "$(cat repo/made)" = new ]
    run -0 tend patch "$id" --step build --stat
    [ "$output" = $'step build:\n  M +1 -0 kept\n  A +1 -0 made' ]
    run -0 tend patch "$id" --failed
    [[ "$output" == *"+half"* && "$output" != *"+more"* ]]
    run -0 tend patch "$id" --failed --json
    json '.patches | length == 1 and .[0].step_id == "test" and .[0].changed_files == ["half"]
          and .[0].encoding == "utf-8" and (.[0].patch | contains("+half")) and .[0].dropped_bytes == 0'
    run -0 tend patch "$id" --json --stat
    json '.patches[0].files == [{"path": "kept", "status": "M", "added": 1, "removed": 0},
                                {"path": "made", "status": "A", "added": 1, "removed": 0}]'
    run -0 tend show "$id"
    [[ "$output" == *"kept for you"*"its workspace is $PWD/.tend/run/job-$id/"*" on $(hostname), until "* ]]
    [[ "$output" == *"'tend patch $id --failed'"* ]]
    run -0 tend show "$id" --json
    json '.edits == null and (.kept | length == 1) and
          (.kept[0] | .workspace_there and .patch_bytes > 0 and .state == "failed")'
    [ "$(cat "$(jq -r '.kept[0].workspace' <<<"$output")/half")" = half ]
}

# take_over: a job at its second step, taken over from a worker that then ends; $id and $folder
take_over() {
    make_repo
    id=$(add_work "$(jq -n --arg gate "touch $PWD/begun; grep -q repaired kept || exec sleep 600; cat kept >$PWD/seen" \
        '[{id: "build", run: "echo new >made"}, {id: "test", run: $gate, grace: "100ms"}]')")
    start_worker
    until_true test -e begun
    run -0 tend control "$id" takeover
    [[ "$output" == *"'tend resume $id --keep-edits' keeps your changes; without it the step begins afresh" ]]
    until_true has_state "$id" held
    kill "$worker"
    ended "$worker"
    folder=$(tend show "$id" --json | jq -r '.kept[0].workspace')
    [ -d "$folder" ]
}

edits_are_taken_over() {
    take_over
    run -0 tend show "$id"
    [[ "$output" == *"its workspace is $folder on $(hostname), while the job is held"* ]]
    echo repaired >>"$folder/kept"
    run -0 tend resume "$id" --keep-edits
    [[ "$output" == "1 job resumed; step test goes on with 1 file changed in $folder ("* ]]
    run -0 tend show "$id"
    [[ "$output" == *"step 2 goes on with what $(id -un)@$(hostname) changed"* ]]
    run -0 tend workspace "$id" --json
    json '.edited and .before_step == "test" and .checkpoints == 1'
    [ "$(cat "job-$id/kept")" = $'first\nrepaired' ]
    # On another machine: with a folder of its own.
    tend work --drain --folder elsewhere >work.log
    has_state "$id" done
    [ "$(cat seen)" = $'first\nrepaired' ]
    run -0 tend patch "$id" --step test
    [[ "$output" == *"+repaired"* ]]
    run -0 tend show "$id" --json
    json '.edits == null and ([.events[].what] | index("task.edits.kept"))'
}

leftovers_are_removed() {
    make_repo
    id=$(add_work "$(jq -n --arg run "touch $PWD/begun; exec sleep 600" '[{id: "a", $run}]')")
    start_worker
    until_true test -e begun
    kill -KILL "$worker"
    ended "$worker"
    [ "$(workspaces)" = 1 ]
    tend cancel "$id" >/dev/null
    until_true no_worker
    run -0 tend doctor
    [[ "$output" == *"note left over: 1 folder of an ended attempt takes "*".tend/run that nothing needs"* ]]
    run -0 tend doctor --json
    json '.disk.left.count == 1 and .disk.left.bytes > 0 and (.disk.folder | endswith(".tend/run"))'
    run -0 tend heal --dry-run
    [[ "$output" == *"1 folder of an ended attempt would be removed, "*"KiB" ]]
    [ "$(workspaces)" = 1 ]
    run -0 tend heal --json
    json '.removed.attempt_folders == 1 and .removed.bytes > 0 and .removed.failed == 0'
    [ "$(workspaces)" = 0 ]
    run -0 tend doctor
    [[ "$output" == *"ok   left over: nothing is left over in "*".tend/run"* ]]
}

# A dead worker is taken off the list by whoever claims next, or heals.
no_worker() {
    tend heal --dry-run >/dev/null
    tend claim -q nothing >/dev/null 2>&1 || true
    [ "$(tend workers --json | jq -s length)" = 0 ]
}
