/* See plan_hint in plan.h. */
#include "cli/cli.h"
#include "cli/plan.h"
#include "core/spec.h"
#include "queue/explain.h"

#include <string.h>

/* Whether a payload looks like a plan that is misspelt. With a kind of somebody's own, words that
 * only other tools use for commands are data. */
static bool has_slip(const struct tend_job_spec *spec, struct spec_slip *ret)
{
    size_t bytes = spec->payload_bytes ? spec->payload_bytes
                   : spec->payload     ? strlen(spec->payload)
                                       : 0;
    return spec_find_slip(spec->payload, bytes, ret) &&
           (ret->certain || !spec->kind || !*spec->kind);
}

void plan_hint(struct cli *cli, const struct tend_job_spec *spec)
{
    struct spec_slip slip;
    char who[NAME_BYTES];
    const char *kind = spec->kind ? spec->kind : "";
    if (has_slip(spec, &slip))
        cli_note(
            cli,
            "%s: the payload is data, as \"%s\" makes no plan; did you mean \"%s\"? As it is, %s",
            cli->path, slip.member, slip.meant,
            *kind ? "only a worker with a handler for its kind runs the job"
                  : "no worker runs the job, only 'tend claim' takes it");
    else if (explain_unhandled_kind(cli->store, spec->queue, kind, who) <= 0)
        return;
    else if (!*kind)
        cli_note(
            cli,
            "%s: worker %s has just given back a job without a kind, as handlers are for kinds; "
            "'tend claim' takes it, or cancel it and add it with --kind KIND",
            cli->path, who);
    else
        cli_note(cli,
                 "%s: worker %s has just given back a job of this kind, as it has no handler for "
                 "it; 'tend work --handler %s=COMMAND' runs them",
                 cli->path, who, kind);
}
