/* What a shell can start, and what it cannot. */
#include "run/shell_word.h"
#include "support/test.h"

#include <unistd.h>

TEST(shell_word, a_plain_name_that_is_nowhere_is_lacking)
{
    check(shell_lacks_command("no-such-tool", NULL));
    check(shell_lacks_command("  no-such-tool --all; true", NULL));
    check(shell_lacks_command("/no/such/tool x", NULL));
    check(shell_lacks_command("./no-such-tool", "."));
    check(shell_lacks_command("/dev/null", NULL)); /* cannot be executed */
    check(shell_lacks_command("/tmp", NULL));
}

TEST(shell_word, what_is_there_is_not)
{
    check(!shell_lacks_command("sh -c 'no-such-tool'", NULL));
    check(!shell_lacks_command("/bin/sh -c x", NULL));
    check(!shell_lacks_command("exit 127", NULL));
    check(!shell_lacks_command("true; no-such-tool", NULL));
    check_int(symlink("/bin/sh", test_path("tool")), ==, 0);
    check(!shell_lacks_command("./tool", test_folder()));
}

TEST(shell_word, what_only_a_shell_can_tell_is_not)
{
    static const char *const lines[] = {"",       "$TOOL x", "'no such'", "A=1 tool", "(tool)",
                                        "! tool", "~/tool",  "tool>out",  "to\\ol x"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        check(!shell_lacks_command(lines[i], NULL));
    check(!shell_lacks_command("./tool", NULL)); /* relative to a folder that is not known */
}
