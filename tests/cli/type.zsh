# Types into an interactive zsh that has tend's completion, and tells what became of it.
# usage: zsh -f type.zsh FILE SETUP TEXT…
# SETUP is a line that loads the completion. A line per TEXT in FILE: the command line after TEXT and a tab.
zmodload zsh/zpty
file=$1 setup=$2
shift 2

wait_for_lines() {
    repeat 500; do
        [[ $(wc -l <$file) -ge $1 ]] && return
        sleep 0.02
    done
    exit 1
}

: >$file
zpty shell zsh -f -i
zpty -w shell "PS1= PS2=; $setup"
zpty -w shell "keep() { print -r -- \$BUFFER >>$file; BUFFER=; }; zle -N keep; bindkey '^X' keep; print ready >>$file"
wait_for_lines 1
lines=1
for text; do
    zpty -w -n shell "$text"$'\t\x18'
    wait_for_lines $((++lines))
done
zpty -d shell
