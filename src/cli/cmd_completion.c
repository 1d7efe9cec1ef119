/*
 * tend completion: scripts that let a shell complete commands and options.
 *
 * The scripts know nothing themselves: they hand the words typed so far to `tend __complete`
 * (complete.c), which answers from the tables. So they never go out of date.
 */
#include "cli/cli.h"
#include "cli/json_out.h"

#include <string.h>

static const char bash_script[] =
    "# bash completion for tend; in ~/.bashrc: source <(tend completion bash)\n"
    "_tend() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} line\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :files) compopt -o default; COMPREPLY=(); return ;;\n"
    "        esac\n"
    "        line=${line%%$'\\t'*}\n"
    "        if [[ $line == \"$cur\"* ]]; then COMPREPLY+=(\"$line\"); fi\n"
    "    done < <(tend __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _tend tend\n";

static const char zsh_script[] =
    "#compdef tend\n"
    "# zsh completion for tend; in ~/.zshrc, behind compinit: source <(tend completion zsh)\n"
    "# or as the file _tend in a folder of $fpath\n"
    "_tend() {\n"
    "    local -a answers\n"
    "    local line\n"
    "    while IFS= read -r line; do\n"
    "        if [[ $line == :files ]]; then _files; return; fi\n"
    "        answers+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
    "    done < <(tend __complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
    "    _describe tend answers\n"
    "}\n"
    "if [[ $funcstack[1] == _tend ]]; then _tend \"$@\"; else compdef _tend tend; fi\n";

static const char fish_script[] =
    "# fish completion for tend; in ~/.config/fish/config.fish: tend completion fish | source\n"
    "function __tend_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in (tend __complete $words[2..-1] 2>/dev/null)\n"
    "        if test \"$line\" = :files\n"
    "            __fish_complete_path (commandline -ct)\n"
    "        else\n"
    "            echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c tend -f -a '(__tend_complete)'\n";

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    const char *script = strcmp(argv[0], "bash") == 0   ? bash_script
                         : strcmp(argv[0], "zsh") == 0  ? zsh_script
                         : strcmp(argv[0], "fish") == 0 ? fish_script
                                                        : NULL;
    if (!script)
        return cli_fail(cli, TEND_EINVAL, "completion: \"%s\" is not one of bash, zsh, fish",
                        argv[0]);
    if (!cli->json) {
        buf_puts(&cli->out, script);
        return EXIT_DONE;
    }
    json_open(&cli->out, NULL, '{');
    json_text(&cli->out, "shell", argv[0]);
    json_text(&cli->out, "script", script);
    json_close(&cli->out, '}');
    buf_putc(&cli->out, '\n');
    return EXIT_DONE;
}

const struct command cmd_completion = {
    .name = "completion",
    .group = "Help",
    .form = "bash|zsh|fish",
    .text = "print a script that completes commands and options in a shell",
    .choices = "bash|zsh|fish",
    .examples = "source <(tend completion bash)",
    .args_min = 1,
    .args_max = 1,
    .run = run,
};
