# BY-3: hooks, commands that run as jobs when automation gives up.
load helper
load running

# A hook's command: what it was told is in the file told, and what TEND_INPUT had in told.json.
make_tell() {
    cat >tell <<'END'
#!/bin/sh
echo "$1: job $TEND_NOTIFY_JOB of $TEND_NOTIFY_QUEUE, $TEND_NOTIFY_ON, $TEND_NOTIFY_CLASS: $TEND_NOTIFY_TEXT" >>"$OLDPWD_OF_TEST/told"
jq .payload.notify "$TEND_INPUT" >"$OLDPWD_OF_TEST/told.json"
END
    chmod +x tell
    export OLDPWD_OF_TEST=$PWD
}

@test "BY-3: a job that fails for good runs the hook's command, which is told what has happened" {
    make_tell
    run --separate-stderr -0 tend notify add ops --on failed -- ./tell ops
    [[ "$output" == 'hook "ops" made: it runs on failed of any queue; its jobs are added to queue "default"'* ]]
    id=$(tend add -k build -- sh -c 'echo no such thing; exit 64')
    tend work --drain >/dev/null
    [[ "$(cat told)" == "ops: job $id of default, failed, deterministic_contract: "*"no such thing"* ]]
    jq -e ".job == $id and .kind == \"build\" and .attempts == 1 and .state == \"failed\"" told.json
    [ "$(wc -l <told)" = 1 ]
}

@test "BY-3: a hook for one queue adds to the queue it names, and a job of its own that fails calls nobody" {
    tend notify add mail --on failed,poison -q mail --into alerts -- sh -c 'exit 64' >/dev/null
    tend add -- sh -c 'exit 64' >/dev/null
    tend add -q mail -- sh -c 'exit 64' >/dev/null
    tend work -q default -q mail -q alerts --drain >/dev/null
    run -0 tend jobs -q alerts --json
    [ "${#lines[@]}" = 1 ]
    json '.state == "failed" and .tags == ["notify:mail"] and .payload.env.TEND_NOTIFY_QUEUE == "mail"'
}

@test "BY-3: a step that is exhausted is told although the job is tried again" {
    tend notify add again --on exhausted --into alerts -- true >/dev/null
    tend add --payload '{"run": "exit 75", "attempts": 1}' >/dev/null
    tend work --drain >/dev/null
    run -0 tend jobs -q alerts --json
    json '.payload.notify.on == "exhausted" and .payload.notify.state == "scheduled"'
}

@test "BY-3: a hook that retries or adds jobs does not call itself for ever" {
    tend notify add loop --on failed -- \
        sh -c "$TEND retry "'"$TEND_NOTIFY_JOB"'"; $TEND add -k more -- sh -c 'exit 64'" >/dev/null
    id=$(tend add -- sh -c 'exit 64')
    timeout 60 "$TEND" work --drain >/dev/null
    calls() { tend jobs --json | jq -s '[.[] | select(.tags == ["notify:loop"])] | length'; }
    [ "$(calls)" = 1 ]
    [ "$(tend jobs --json | jq -s '[.[] | select(.kind == "more" and .state == "failed")] | length')" = 1 ]
    # Somebody else retries it: its next failure is told.
    tend retry "$id" >/dev/null
    timeout 60 "$TEND" work --drain >/dev/null
    [ "$(calls)" = 2 ]
}

@test "hooks are listed, replaced and removed, and leave events" {
    tend notify add ops --on failed -- true >/dev/null
    tend notify add ops --on exhausted,failed -- mail -s 'a job' ops >/dev/null
    run -0 tend notify ls
    [[ "${lines[1]}" == "ops   failed,exhausted  any       default  mail -s a job ops" ]]
    run -0 tend notify ls --json
    json '.name == "ops" and .on == "failed,exhausted" and .for_queue == null and .payload.exec[0] == "mail"'
    fails 3 tend notify rm op
    says 'did you mean "ops"?'
    run -0 tend notify rm ops
    [ "$output" = 'hook "ops" removed' ]
    run -0 tend notify ls
    [ "${#lines[@]}" = 1 ]
    [ "$(tend events --json | jq -r .what | tr '\n' ' ')" = 'hook.set hook.set hook.removed ' ]
}

# A store was made before the words were looked at.
@test "what is no hook is refused, and makes no store" {
    fails 2 tend notify add ops --on fail -- true
    says "a hook cannot be for 'fail'; give failed, poison or exhausted"
    fails 2 tend notify add ops --on failed
    says 'the command to run'
    fails 2 tend notify add ops more --on failed -- true
    says 'at most a NAME'
    fails 2 tend notify add ops -- true
    says '--on'
    fails 2 tend notify add ops --on failed -q $'a\nb' -- true
    fails 2 tend notify add ops --on failed --env API_TOKEN=sesame-open-4711 -- true
    says 'notify add: --env API_TOKEN=… looks like a secret'
    fails 2 tend notify add ops --on failed --workspace . --no-folder -- true
    says '--workspace and --no-folder exclude each other'
    [ ! -e .tend ]
}

@test "BY-3: a hook without a name is called as its command, and a repeated one is not made twice" {
    touch tell-ops
    run -0 tend notify add --on failed,poison,exhausted -- ./tell-ops
    [[ "${lines[-1]}" == 'hook "tell-ops" made: it runs on failed,poison,exhausted of any queue'* ]]
    run -0 tend notify add --on poison,exhausted,failed -- ./tell-ops
    [[ "$output" == 'hook "tell-ops" unchanged: it runs'* ]]
    # Symptom: with another --on there was a second hook, and each ending was told twice.
    run -0 tend notify add --on failed -- ./tell-ops
    [[ "$output" == 'hook "tell-ops" replaced: it runs on failed of'* ]]
    run -0 tend notify add --on failed --into alerts --json -- ./tell-ops
    json '.name == "tell-ops" and .outcome == "replaced" and .queue == "alerts"'
    run -0 tend notify add --on failed -- ./tell-ops ann
    [[ "$output" == 'hook "tell-ops-2" made: it runs'* ]]
    run -0 tend notify add --on failed -q mail -- ./tell-ops ann
    [[ "$output" == 'hook "tell-ops-3" made: it runs'* ]]
    run -0 tend notify add --on failed -- /
    [[ "$output" == 'hook "hook" made: it runs'* ]]
    [ "$(tend notify ls --json | jq -r .name | tr '\n' ' ')" = 'hook tell-ops tell-ops-2 tell-ops-3 ' ]
    [ "$(tend events --json | jq -r .what | grep -c hook.set)" = 6 ]
}

# Symptom: a misspelt path was noticed only when a job had failed and nobody was told.
@test "a command that is not there is hinted at, and accepted" {
    tend migrate >/dev/null
    run --separate-stderr -0 tend notify add --on failed -- ./tell-ops
    [[ "$stderr" == *"tend: hint: there is no file ./tell-ops in $PWD now; the job fails unless it is there when it runs" ]]
    run --separate-stderr -0 tend schedule add night '0 3 * * *' -- bin/report
    [[ "$stderr" == *"tend: hint: there is no file bin/report in $PWD now;"* ]]
    run --separate-stderr -0 tend add -- "$PWD/report"
    [[ "$stderr" == *"tend: hint: there is no file $PWD/report now;"* ]]
    for command in tell-ops /bin/sh; do
        run --separate-stderr -0 tend add -- "$command"
        [ -z "$stderr" ]
    done
    run --separate-stderr -0 tend add --no-folder -- ./report
    [ -z "$stderr" ]
}

# Only the first word of the command was made absolute, and a secret had to be written into it.
@test "BY-3: a hook's command runs in the folder where it was given, with variables of its worker" {
    tend migrate >/dev/null
    mkdir hooks
    echo 'echo "$PWD: $WORD, $CHAT_NAME, $TEND_NOTIFY_ON" >told' >hooks/tell.sh
    (cd hooks && tend notify add chat --on failed --env WORD=hello --env-from CHAT_NAME -- sh ./tell.sh)
    run -0 tend notify ls --json
    json ".workspace == \"$PWD/hooks\" and .payload.env == {WORD: \"hello\", CHAT_NAME: {env: \"CHAT_NAME\"}}"
    tend add -- sh -c 'exit 64'
    CHAT_NAME='plain words' tend work --drain >/dev/null
    [ "$(cat hooks/told)" = "$PWD/hooks: hello, plain words, failed" ]
    run -1 grep -rqF 'plain words' .tend
    tend notify add chat --on failed --no-folder -- true
    run -0 tend notify ls --json
    json '.workspace == null'
}
