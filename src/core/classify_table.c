/*
 * The built-in text rules: what the last lines of an output say about a failure.
 *
 * Asked only when neither the step nor the way it ended said anything. Where one line could be read
 * both ways, the rule that retries stands first: a needless retry costs a minute, a needless end
 * costs the job. Words that also occur in healthy output (forbidden, schema, denied) must stand in
 * a phrase that only failures use.
 */
#include "core/classify_rules.h"

/* "HTTP 503", "status code: 503", "returned error: 503", "503 Service …" is left to its words. */
#define STATUS(codes)                                                                              \
    "\\b(?:https?(?:/[\\d.]+)?|status|code|error)(?:[ :=]+code)?[ :=]+(?:" codes ")\\b"

static const struct text_rule table[] = {
    {"text.rate_limit", CLASS_TRANSIENT_RUNTIME,
     "rate[ _-]?limit(?:ed|ing|s)? ?(?:exceeded|reached|hit|error|$)|\\brate[ -]limited\\b"
     "|too many requests|quota (?:was |is |has been )?exceeded|request (?:was |is )?throttled"
     "|throttlingexception|" STATUS("429"),
     "the other side asks for patience"},
    {"text.unavailable", CLASS_TRANSIENT_RUNTIME,
     "service (?:is )?(?:temporarily )?unavailable|temporarily unavailable|bad gateway"
     "|gateway time-?out|server (?:is )?overloaded|overloaded_error|internal server error"
     "|please try again later|try again in a few|" STATUS("50[0234]"),
     "a service is not available for now"},
    {"text.network", CLASS_TRANSIENT_RUNTIME,
     "connection (?:was |has been )?(?:refused|reset|timed out|aborted|closed (?:by|unexpectedly))"
     "|(?:could not|couldn't|cannot|failed to) (?:resolve|connect to) (?:host|proxy|server)"
     "|(?:failed|unable) to connect|temporary failure in name resolution"
     "|name or service not known|no such host|no route to host|network is (?:unreachable|down)"
     "|unexpected (?:eof|disconnect)|early eof|the remote end hung up|rpc failed"
     "|tls handshake timeout|i/o timeout|socket hang up|broken pipe"
     "|(?:operation|request|read|write|connect(?:ion)?) timed? ?out|deadline exceeded"
     "|\\b(?:etimedout|econnreset|econnrefused|econnaborted|eai_again|enetunreach|ehostunreach)\\b",
     "the network failed"},
    {"text.contention", CLASS_TRANSIENT_RUNTIME,
     "deadlock (?:detected|found)|could not serialize access|database (?:table )?is locked"
     "|lock wait timeout|could not get lock|unable to create '.*\\.lock': file exists"
     "|resource (?:temporarily unavailable|busy)|device or resource busy|text file busy",
     "somebody else is using it"},
    {"text.resources", CLASS_TRANSIENT_RUNTIME,
     "no space left on device|disk quota exceeded|cannot allocate memory|out of memory"
     "|java heap space|too many open files|cannot fork|virtual memory exhausted",
     "the machine ran short of something"},
    {"text.repo", CLASS_DETERMINISTIC_REPO,
     "not a git repository|does not appear to be a git repository|repository not found"
     "|protected branch|\\bGH00\\d\\b|pre-receive hook declined|\\[remote rejected\\]"
     "|\\[rejected\\]|non-fast-forward|merge conflict|^conflict \\(|automatic merge failed"
     "|patch (?:does not apply|failed)|unknown revision|(?:couldn't|could not) find remote ref"
     "|reference is not a tree|pathspec '.*' did not match|refusing to merge unrelated histories"
     "|would be overwritten by (?:merge|checkout)|src refspec .* does not match"
     "|detected dubious ownership|bad object|you have unmerged paths"
     "|exceeds github's file size limit",
     "the repository does not allow it"},
    {"text.auth", CLASS_DETERMINISTIC_POLICY,
     "authentication (?:failed|failure|required|error)|authorization (?:failed|error|required)"
     "|not authori[sz]ed|\\bunauthori[sz]ed\\b|access (?:is |was )?denied|permission denied"
     "|permission_denied|operation not permitted|\\b403 forbidden|forbidden:|error: forbidden"
     "|bad credentials|(?:invalid|incorrect|expired|revoked|missing)[ _](?:api[ _-]?key|credentials?"
     "|(?:access |auth(?:entication)? )?token|password|username)"
     "|(?:api[ _-]?key|token|credentials?|password)s? (?:is |are |has |have |was )?"
     "(?:been )?(?:missing|not set|required|expired|invalid|revoked|not found|incorrect)"
     "|could not read (?:username|password)|host key verification failed|login (?:is )?required"
     "|a (?:password|terminal) is required|insufficient (?:permission|privilege|scope)s?"
     "|certificate (?:verify failed|has expired|is not trusted)|\\b(?:eacces|eperm)\\b"
     "|" STATUS("40[13]"),
     "something is not permitted or a credential is missing"},
    {"text.policy", CLASS_DETERMINISTIC_POLICY,
     "(?:blocked|denied|rejected|disallowed|prohibited|not allowed) by (?:\\w+ ){0,3}policy"
     "|(?:violates|violation of) (?:\\w+ ){0,3}policy|policy violation",
     "a policy forbids it"},
    {"text.schema", CLASS_DETERMINISTIC_CONTRACT,
     "(?:schema|validation|configuration|config) (?:error|failed|failure|violation)"
     "|validationerror|jsondecodeerror|yaml(?:\\.\\w+)?\\.(?:scanner|parser)error"
     "|(?:invalid|malformed) (?:json|yaml|toml|xml|schema|payload|configuration|config|argument"
     "|option|value|input|request)|does not match (?:the )?schema|additional propert(?:y|ies)"
     "|(?:missing|is a) required (?:field|argument|parameter|property|option|value|key)"
     "|required (?:field|argument|parameter|property|option) .*(?:missing|not)"
     "|the following (?:required )?arguments (?:are|were not)"
     "|" STATUS("400|404|422"),
     "the input does not have the form that is asked for"},
    {"text.usage", CLASS_DETERMINISTIC_CONTRACT,
     "(?:unknown|unrecogni[sz]ed|unsupported|illegal|invalid) (?:option|flag|argument|command"
     "|subcommand|parameter)|unexpected argument|unrecognized arguments"
     "|command not found|: not found$|no rule to make target"
     "|unsupported (?:platform|architecture|version|runtime|operation|capability|engine)"
     "|exec format error",
     "it was called in a way that cannot work"},
};

const struct text_rule *text_rule_table(size_t *ret_count)
{
    *ret_count = sizeof table / sizeof *table;
    return table;
}
