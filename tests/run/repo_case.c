#include "repo_case.h"

#include "runner_case.h"

#include <unistd.h>

void shell(const char *command)
{
    if (chdir(test_folder()) < 0 || system(command) != 0)
        test_fail(__FILE__, __LINE__, "this failed: %s", command);
}

/* A repository "repo" with one commit, and a change nobody has committed. */
void make_repository(void)
{
    shell("exec >/dev/null 2>&1; git init -q -b main repo && cd repo && "
          "git config user.email a@b && git config user.name n && "
          "echo first > kept && echo ignored > .gitignore && git add . && git commit -qm one && "
          "echo dirty >> kept");
}

/* The first repeat of a failure leads to a reset, so that the third attempt is made in a fresh
 * workspace. */
const char *with_workspace(const char *steps)
{
    return keep_text("{\"workspace\":{\"repo\":\"%s/repo\",\"ref\":\"main\"},"
                     "\"step_no_progress_limit\":1,\"env\":{\"T\":\"%s\"},\"steps\":[%s]}",
                     test_folder(), test_folder(), steps);
}

/* How many workspaces of a job are on the disk. */
int workspaces_of(int64_t id)
{
    shell(keep_text("ls -d .tend/run/job-%lld/lease-*/workspace-*/.git 2>/dev/null | wc -l > count",
                    (long long)id));
    return (int)file_number("count");
}
