# For the tests of commands on a terminal; loaded behind helper and running.

# on_terminal COLUMNS COMMAND: what the command prints on a terminal of that width, without colours
on_terminal() {
    TERM=xterm script -qec "stty cols $1 rows 30; $2" /dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;]*m//g'
}

# start_on_terminal COMMAND: in the background on a terminal of 80 columns; $terminal is its pid,
# seen what it prints, press KEYS types
start_on_terminal() {
    rm -f keys seen
    mkfifo keys
    TERM=xterm script -qfec "stty cols 80 rows 20; $1" /dev/null <keys >seen 2>&1 3>&- &
    terminal=$!
    started+=("$terminal")
    exec 9>keys
}

press() {
    printf "$1" >&9
}

# terminal_ended: waits for it; $status is how it ended
terminal_ended() {
    ended "$terminal"
    exec 9>&-
}

sees() {
    grep -Fq -- "$1" seen
}

# with_pid COMMAND: a line that runs tend and leaves its pid in the file pid
with_pid() {
    echo "sh -c 'echo \$\$ >pid; exec \"\$0\" $1' '$TEND'"
}
