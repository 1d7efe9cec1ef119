/*
 * The built-in text rules: which words mean which class.
 *
 * Asked only when neither the step nor the way it ended said anything, and only about lines that
 * can be evidence (classify_text.c). A weight says how sure the words make us; where one line could
 * be read both ways, the rules that retry win at equal weight: a needless retry costs a minute, a
 * needless end costs the job. Names with underscores or hyphens in small letters
 * (permission_denied, access-denied) are names of functions, tests and files, so phrases have
 * blanks. Codes of services, in (?-i: … ), count only as they are spelt.
 */
#include "core/classify_rules.h"

/* "HTTP 503", "status code: 503", "returned error: 503", "Error code: 503"; not "503 tests". */
#define STATUS(codes)                                                                              \
    "\\b(?:https?(?:/[\\d.]+)?|status|code|error|statuscode)"                                      \
    "\\W{0,3}(?:code\\W{0,3}|error\\W{0,3})?[\"']?(?:" codes ")\\b"                                \
    "(?! (?:tests?|rows?|lines?|files?|records?|items?|ms|of \\d+)\\b)"

/* The line compares what came with what was wanted, as a failed test does. */
#define NOT_COMPARED "^(?!.*(?:\\bexpected\\b|\\bgot\\b|!=)).*?\\K"

#define PATIENCE "the other side asks for patience"
#define AWAY "a service is not available for now"
#define NETWORK "the network failed"
#define CONTENTION "somebody else is using it"
#define SHORTAGE "the machine ran short of something"
#define REPO "the repository does not allow it"
#define AUTH "something is not permitted or a credential is missing"
#define TRUST "a certificate or a signature is not trusted"
#define FORBIDDEN "a policy forbids it"
#define FORM "the input does not have the form that is asked for"
#define USAGE "it was called in a way that cannot work"
#define MISSING "something that it needs does not exist"

static const struct text_rule table[] = {
    {"text.rate_limit", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE,
     "rate[ -]?limit(?:ed|ing|s)?[ :]*(?:was |is |has been )?(?:exceeded|reached|hit|error"
     "|of \\d)|(?<![\\w/.-])rate_limit_(?:error|exceeded)(?![\\w/.-])|\\brate[ -]limited\\b"
     "|\\brate exceeded|exceeded (?:\\w+ ){0,2}rate limits?\\b|(?<!/)too many ?requests"
     "|secondary rate limit|pull rate limit"
     "|usage limit reached|reduce your request rate|too many tokens"
     "|quota (?:was |is |has been )?exceeded|(?:is being|was|is|request|been) throttled",
     PATIENCE},
    {"text.rate_limit", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE,
     "(?-i:Throttl(?:ing|ed)(?:Exception|Error)?\\b|\\bSlowDown\\b|RequestLimitExceeded"
     "|ThroughputExceeded|TooManyRequests|ResourceExhausted|RESOURCE_EXHAUSTED|RateLimitError"
     "|TOO_?MANY_?REQUESTS)",
     PATIENCE},
    {"text.rate_limit", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE, STATUS("429"), PATIENCE},
    {"text.unavailable", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE,
     "service (?:is )?(?:currently |temporarily )?(?:un|not )available"
     "|(?<!resource )temporarily unavailable|bad gateway|gateway time-?out|\\boverloaded\\b"
     "|\\boverloaded_error\\b|internal (?:server )?error occurred|internal server error"
     "|\\btry again (?:later|in a few)|come back later|temporary error"
     "|database system is (?:starting up|shutting down|in recovery)"
     "|leader changed|server selection|daemon running\\?|\\bis it running\\?"
     "|broker (?:may )?not (?:be )?available|loading the dataset"
     "|upstream (?:connect error|request timeout)|is unhealthy\\b"
     "|\\b50[234] (?:bad|service|gateway|server)",
     AWAY},
    {"text.unavailable", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE,
     "(?-i:ServiceUnavailable|InternalServerError|InternalFailure"
     "|(?:code = |status: )(?:Unavailable|Internal|Aborted)\\b|\\bUNAVAILABLE\\b"
     "|\\bAPIConnectionError)"
     "|JSONDecodeError: expecting value: line 1 column 1 \\(char 0\\)", /* an empty answer */
     AWAY},
    {"text.unavailable", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE, STATUS("50[0234]|529|52[0-4]"),
     AWAY},
    {"text.network", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE,
     "connection (?:was |has been |is )?(?:refused|reset|timed out|time-?out|aborted|broken"
     "|terminat|error|failed)"
     "|connection (?:was |is )?(?:closed (?:by|unexpectedly)|unexpectedly closed)"
     "|connection to \\S+ was (?:lost|refused)|connection to the server \\S+ was refused"
     "|(?:could not|couldn't|cannot|can't|unable to|failed to) resolve (?:host|address|'(?![./])"
     "|proxy)|temporary failure (?:in name resolution|resolving)"
     "|name resolution|name or service not known|no such host|no route to host"
     "|network (?:is (?:unreachable|down)|error|connectivity)|unexpected disconnect|early eof"
     "|(?:remote end|server) (?:hung up|closed (?:the )?connection)|rpc failed"
     "|tls handshake timeout|\\bi/?o timeout|socket hang up|broken pipe"
     "|empty reply from server|recv failure|lost connection to\\b|timeout while waiting for"
     "|(?:operation|request|read|write|connect(?:ion)?|response)\\W{0,2} timed? ?out"
     "|\\btimed out (?:after \\d|waiting for (?:a node|the condition))"
     "|timeout (?:was )?reached|\\btimeout exceeded|deadline exceeded|exceeded its progress deadline"
     "|non-properly terminated|(?<!data )stream (?:disconnected|error|\\d+ was not closed)"
     "|no more mirrors|ssl_connect|ssl_error_syscall|truncated http response"
     "|failed_connect|has gone away"
     "|fetch failed|not be reached|communications error|no servers could be reached|neterror"
     "|net::err_",
     NETWORK},
    {"text.network", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE,
     "(?-i:\\bE(?:TIMEDOUT|CONNRESET|CONNREFUSED|CONNABORTED|AI_AGAIN|NETUNREACH|HOSTUNREACH)\\b"
     "|\\bE(?:NOTFOUND|SOCKETTIMEDOUT|PIPE)\\b|UND_ERR_\\w*TIMEOUT|ConnectionRefused"
     "|ConnectionError|(?:Connect(?:ion)?|Open|Read|Write|Request|Socket)Time(?:out|dOut)"
     "|DeadlineExceeded|DEADLINE_EXCEEDED|EndpointConnectionError|ConnectException"
     "|(?:UnknownHost|NoRouteToHost|Timeout)Exception)",
     NETWORK},
    /* Often the reason stands beside or below it, and it need not be the network. */
    {"text.network", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE | NO_RIVAL,
     "(?:could not|couldn't|cannot|can't|unable to|failed to) (?:connect(?! to bus)|reach"
     "|establish a new connection)\\b",
     NETWORK},
    /* It has given up after the last of its own retries, although it tells so as a warning. */
    {"text.network", CLASS_TRANSIENT_RUNTIME, PROOF, OUTSIDE | IN_WARNINGS,
     "\\(Retry\\(total=0,.*(?:NewConnectionError|ReadTimeout|ConnectTimeout|ProtocolError"
     "|resolution)|: temporary error \\(try again later\\)",
     NETWORK},
    {"text.contention", CLASS_TRANSIENT_RUNTIME, PROOF, 0,
     "deadlock (?:detected|found)|could not serialize access|database (?:table )?is locked"
     "|lock wait timeout|could not (?:get|acquire) (?:the )?lock"
     "|unable to create '.*\\.lock': file exists|\\bresource busy"
     "|text file busy|acquiring the state lock"
     "|another (?:git )?(?:process|instance|operation)\\b|cannot lock ref"
     "|port is already allocated|address already in use|too many (?:clients|connections)"
     "|object has been modified|concurrent (?:update|modification)|waiting for file lock",
     CONTENTION},
    {"text.contention", CLASS_TRANSIENT_RUNTIME, PROOF, 0,
     "(?-i:\\bE(?:ADDRINUSE|BUSY)\\b|ConditionalCheckFailed|StateLockError)", CONTENTION},
    {"text.resources", CLASS_TRANSIENT_RUNTIME, PROOF, 0,
     "no space left on device|disk quota exceeded|cannot allocate memory|\\bout of memory\\b"
     "|java heap space|heap out of memory|too many open files|cannot fork"
     "|virtual memory exhausted|resource temporarily unavailable|killed signal terminated"
     "|unable to execute command: killed|daemon disappeared unexpectedly|memory limit\\b"
     "|oom command not allowed|\\boomkilled\\b|hash sum mismatch",
     SHORTAGE},
    {"text.resources", CLASS_TRANSIENT_RUNTIME, PROOF, 0,
     "(?-i:\\bE(?:NOSPC|MFILE|NOMEM|DQUOT)\\b|OutOfMemoryError|\\bMemoryError\\b)", SHORTAGE},
    {"text.repo", CLASS_DETERMINISTIC_REPO, PROOF, 0,
     "not a git repository|does not appear to be a git repository|\\brepository not found"
     "|repository '.*' (?:not found|does not exist)|\\bGH00\\d\\b|\\bGH013\\b"
     "|repository rule violations|pre-receive hook declined|protected branch"
     "|\\[remote rejected\\]|\\[rejected\\]|non-fast-forward|^conflict \\(|automatic merge failed"
     "|patch (?:does not apply|failed)|corrupt patch|only garbage was found"
     "|patch format detection|hunks? failed\\b|failed to find expected lines"
     "|could not (?:apply|revert) [0-9a-f]{7}|unknown revision or path"
     "|(?:couldn't|could not) find remote ref|remote branch .* not found"
     "|reference is not a tree|pathspec '.*' did not match"
     "|refusing to merge unrelated histories|not our ref\\b"
     "|would be overwritten by (?:merge|checkout)|src refspec .* does not match"
     "|dubious ownership|\\bbad object\\b|unmerged (?:paths|files)"
     "|divergent branches|has no upstream branch"
     "|not currently on a branch|no merge base|already (?:checked out|used by worktree)"
     "|you have unstaged changes|(?:branch|tag) (?:named )?'.*' already exists"
     "|(?:destination path|fatal:) '.*' already exists|loose object .* is corrupt"
     "|no submodule mapping|not mergeable|no commits between|\\.hg not found"
     "|push creates new remote head|\\bE155011\\b|\\bE155007\\b"
     "|(?:rebase-merge|rebase-apply) directory",
     REPO},
    {"text.repo", CLASS_DETERMINISTIC_REPO, VERDICT, 0,
     "^nothing to commit|^automatic merge failed|^\\d+ out of \\d+ hunks? failed"
     "|\\(push declined due to|^patch failed at \\d|^could not apply [0-9a-f]{7}"
     "|^patch format detection failed",
     REPO},
    {"text.auth", CLASS_DETERMINISTIC_POLICY, PROOF, 0,
     "authentication (?:failed|failure|required)|authorization (?:failed|required)"
     "|not authori[sz]ed\\b|: unauthori[sz]ed\\b|\\bunauthori[sz]ed(?: -|:|\\)|$)"
     "|\\bunauthenticated:|\\b401 (?:unauthori[sz]ed|client error)"
     "|(?:[]:;,)=*-]|^) {0,2}access (?:is |was )?denied"
     "|(?:[]:;,)=*-]|^) {0,2}permission denied"
     "|operation not permitted|permission to \\S+ denied|permission '.*' denied"
     "|requested access to the resource is denied|relay access denied|\\b403 forbidden"
     "|(?:\\(|is |: )forbidden[:)]|error: forbidden|must be (?:logged in|authenticated)"
     "|bad credentials|(?:invalid|incorrect|expired|revoked|missing|wrong) (?:x-)?api[ _-]?key"
     "|(?:invalid|incorrect|expired|revoked|missing|wrong) (?:or \\S+ )?(?:credentials?"
     "|password|username)"
     "|(?<!['\"`])(?:invalid|incorrect|expired|revoked|missing|wrong) (?:access |auth(?:entication)? "
     "|security )?token"
     "|(?:api[ _-]?key|token|credentials?|passwords?) (?:is |are |has |have |was |seems to"
     " be )?(?:been )?(?:missing|required|expired|invalid|revoked|incorrect)"
     "|(?:api[ _-]?key|token|credentials?|passwords?) (?:included |provided |client option"
     " )*(?:is |are |has |was |were |must )?(?:be set|not (?:been )?(?:set|found|correct"
     "|valid|provided|configured))"
     "|no (?:\\w+ ){0,2}(?:credentials?|token)(?: sources)? (?:found|specified|available"
     "|provided)|(?:locate|find) credentials"
     "|could not (?:read (?:username|password)|authenticate)|host key verification failed"
     "|login (?:is )?required|please run ['\\\"`/]?(?:/login|az login)"
     "|a (?:password|terminal) is required|missing sudo password|not in the sudoers"
     "|insufficient (?:permission|privilege|scope|authentication)"
     "|read-only file system|do(?:es)? not have (?:the )?(?:permission|authorization|access)"
     "|no pg_hba|resource not accessible"
     "|credit balance is|saml enforcement|no secret key|license expired|exceeded quota:"
     "|active account selected|auto-detect email|authentication_error|permission_error"
     "|invalid_api_key|command denied to user"
     "|account (?:has been |is |was )(?:suspended|disabled|deactivated)",
     AUTH},
    {"text.auth", CLASS_DETERMINISTIC_POLICY, PROOF, 0,
     "(?-i:\\bE(?:ACCES|PERM|401|403|NOGHTOKEN)\\b|AccessDenied(?:Exception)?\\b"
     "|Unauthorized(?:Operation|Error|Exception)|PermissionDenied(?:Error)?\\b"
     "|PERMISSION_DENIED|Unauthenticated\\b|UNAUTHENTICATED|AuthorizationFailed|ExpiredToken"
     "|InvalidClientTokenId|SignatureDoesNotMatch|NoCredentials(?:Error)?"
     "|DefaultCredentialsError|AuthenticationError|PermissionError|NOAUTH)",
     AUTH},
    {"text.auth", CLASS_DETERMINISTIC_POLICY, PROOF, 0, NOT_COMPARED STATUS("40[137]"), AUTH},
    {"text.auth", CLASS_DETERMINISTIC_POLICY, VERDICT, 0,
     "^host key verification failed|connect: permission denied$"
     "|: permission denied \\((?:publickey|password|gssapi)"
     "|\\bare you root\\?|requires superuser|^unable to locate credentials|^invalid api key\\b"
     "|^your (?:credentials?|token|session|licen[cs]e)s? (?:have |has )?expired"
     "|access tokens? (?:has )?expired|^credit balance is too low|insufficient_quota"
     "|content_policy_violation|not in the sudoers file|over its data quota"
     "|username/password authentication failed|without `workflow` scope"
     "|do not have permission to push|problem refreshing your current auth tokens",
     AUTH},
    /* Variables that hold credentials. */
    {"text.auth", CLASS_DETERMINISTIC_POLICY, VERDICT, 0,
     "(?-i:\\b[A-Z][A-Z0-9_]*_(?:TOKEN|API_?KEY|SECRET|PASSWORD)\\b (?:is |was )?(?:not (?:set"
     "|defined)|missing|required|empty)"
     "|\\b[A-Z][A-Z0-9_]*_(?:TOKEN|API_?KEY|SECRET|PASSWORD)\\b must be (?:set|defined)"
     "|(?:set|specify)\\b.*environment variables?\\b.*\\b[A-Z]+_(?:TOKEN|API_?KEY)\\b"
     "|(?:set|populate)\\b.*\\b[A-Z]+_(?:TOKEN|API_?KEY)\\b.*environment variable)",
     AUTH},
    /* pip asks its index, is refused, and then finds nothing. */
    {"text.auth", CLASS_DETERMINISTIC_POLICY, PROOF, IN_WARNINGS,
     "401 error, credentials not correct", AUTH},
    {"text.certificate", CLASS_DETERMINISTIC_POLICY, PROOF, 0,
     "certificate (?:verif\\w+ failed|has expired|is not trusted|problem|signed by unknown)"
     "|self[- ]signed certificate|unable to get local issuer|cannot verify .* certificate"
     "|no alternative certificate|checksum mismatch$|security error$|is not signed\\b"
     "|signatures couldn't be verified",
     TRUST},
    {"text.certificate", CLASS_DETERMINISTIC_POLICY, PROOF, 0,
     "(?-i:CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|UNABLE_TO_VERIFY_LEAF|CERT_HAS_EXPIRED)",
     TRUST},
    {"text.certificate", CLASS_DETERMINISTIC_POLICY, VERDICT, 0,
     "x509: (?:certificate|cannot|failed)|failed to verify certificate"
     "|pkix path building failed",
     TRUST},
    {"text.certificate", CLASS_DETERMINISTIC_POLICY, PROOF, IN_WARNINGS,
     "\\(Retry\\(total=0,.*certificate verify failed", TRUST},
    {"text.policy", CLASS_DETERMINISTIC_POLICY, PROOF, 0,
     "(?:disallowed|not allowed|forbidden) by (?:\\S+ ){0,3}(?:policy|administrator)"
     "|violation of (?:\\w+ ){0,3}policy|policy violation\\b(?! in \\S+\\.\\w)|\\bnot allow-?listed"
     "|not (?:on|in) the allow-?list|denied the request"
     "|externally[- ]managed[- ]environment|approval required",
     FORBIDDEN},
    {"text.policy", CLASS_DETERMINISTIC_POLICY, VERDICT, 0,
     "(?:blocked|denied|rejected|prohibited) by (?:\\S+ ){0,3}policy"
     "|violates (?:\\w+ ){0,3}policy",
     FORBIDDEN},
    {"text.schema", CLASS_DETERMINISTIC_CONTRACT, PROOF, 0,
     "(?:schema|configuration|config) (?:error|failure|violation)\\b(?! rate)"
     "|(?:schema|configuration|config) (?:validation )?failed\\b(?!: \\d)"
     "|(?:invalid|malformed) (?:json|yaml|toml|xml|schema|payload|configuration|config)\\b"
     "|does(?:n't| not) (?:match|meet) (?:the )?(?:schema|spec)|don't meet the specifications"
     "|additional propert(?:y|ies)"
     "|missing required (?:field|argument|parameter|property|option|value|key|configuration)"
     "|(?:is a|no value for) required (?:field|argument|parameter|property|option|value|key"
     "|variable)|required (?:flag|field|argument|parameter|property|option).*(?:missing|not (?:set"
     "|provided))|must have required property|unknown (?:field|key|parameter|instruction)\\b"
     "|nil pointer evaluating|(?:yaml|json|toml|dockerfile)(?: parse error|: line \\d)"
     "|parse error(?: at line|: invalid)|syntax error while loading yaml"
     "|unsupported (?:argument|parameter|attribute)\\b|prompt is too long"
     "|maximum context length|invalid_request_error"
     "|is not found for api version|is invalid: "
     "|invalid value:|undeclared (?:\\w+ )?(?:resource|variable|module)|missing separator"
     "|parameter null or not set",
     FORM},
    /* Models and data are validated as well, and fail because of the work. */
    {"text.schema", CLASS_DETERMINISTIC_CONTRACT, HINT, 0, "\\bvalidation (?:error|failed|failure)",
     FORM},
    {"text.schema", CLASS_DETERMINISTIC_CONTRACT, PROOF, 0,
     "(?-i:ValidationE(?:rror|xception)|JSONDecodeError\\b(?!: Expecting value: line 1 column 1 )|ScannerError|ParserError\\b"
     "|InvalidArgument|INVALID_ARGUMENT|BadRequestError|InvalidParameter)",
     FORM},
    {"text.schema", CLASS_DETERMINISTIC_CONTRACT, PROOF, 0, NOT_COMPARED STATUS("400|404|422"),
     FORM},
    {"text.schema", CLASS_DETERMINISTIC_CONTRACT, VERDICT, 0,
     ": field is immutable$|^the \\w+ \"\\S+\" is invalid: |^parameter validation failed:"
     "|\\bschema validation failed\\b(?!: \\d)|^additional properties are not allowed"
     "|\\bmodel_not_found\\b|context_length_exceeded",
     FORM},
    {"text.usage", CLASS_DETERMINISTIC_CONTRACT, PROOF, 0,
     "(?:unknown|unrecogni[sz]ed|unsupported|illegal|invalid|no such|bad) (?:\\w+"
     " )?(?:options?|flag|arguments?|command|subcommand)\\b"
     "|(?:unknown|invalid|no such) (?:\\w+ )?(?:choice|lifecycle phase|target|output format"
     "|operation|predicate)\\b|unexpected argument|: unknown option|option \\S+ is unknown"
     "|missing argument|arguments are required|required arguments were not"
     "|provided but not defined|is not a git command|command not found"
     "|^(?:/\\S+/)?(?:da|ba|z|k)?sh: .*: not found$|no rule to make target '[^']*'\\. "
     "|no makefile found|url using bad"
     "|unsupported (?:agent )?(?:platform|architecture|runtime|engine|version of)"
     "|exec format error|missing script: |terraform init\"|unit \\S+ not found"
     "|requires a project to execute|class file version|(?:find|load) main class"
     "|^jq: \\d+ compile error|^\\w?awk: .*(?:syntax error|missing)|unbound variable",
     USAGE},
    /* In an error they are enough. */
    {"text.usage", CLASS_DETERMINISTIC_CONTRACT, EVIDENCE, 0,
     "invalid value (?:'.*' )?for\\b|is not a valid\\b|must be one of\\b|expected one of\\b",
     USAGE},
    {"text.usage", CLASS_DETERMINISTIC_CONTRACT, VERDICT, 0,
     "^(?:invalid|unknown|unrecogni[sz]ed) (?:\\w+ format|command|option|operation|flag|argument"
     "|subcommand)\\b|has not been booted with systemd",
     USAGE},
    /* These are enough where they are the last word. */
    {"text.usage", CLASS_DETERMINISTIC_CONTRACT, EVIDENCE, 0,
     "^usage(?:: \\S+ .*[[<]|: \\S+$|: .*\\b(?-i:[A-Z]{3})| of \\S+:)", USAGE},
    {"text.missing", CLASS_DETERMINISTIC_CONTRACT, EVIDENCE, 0, ": no such file or directory\\.?$",
     MISSING},
    {"text.missing", CLASS_DETERMINISTIC_CONTRACT, PROOF, 0,
     "unable to (?:locate package|find a match|find package|access jarfile)|no such package"
     "|\\(from versions: \\d|could not open requirements file"
     "|resolution ?impossible|are unsatisfiable"
     "|lock ?file.*(?:needs to be updated|not up to date|would have been modified)"
     "|unable to resolve dependency tree"
     "|couldn't find (?:package|a configuration file)|failed to select a version"
     "|could not find (?:`cargo\\.toml`|artifact|gem|compatible versions)"
     "|could not find \\w+, try to set|go\\.mod (?:file not found|requires go)"
     "|missing go\\.sum entry|invalid version: |not found in root project"
     "|does not have (?:the |this |these )?features?\\b|no matching version found"
     "|command \"\\S+\" not found|chart \"\\S+\" (?:matching \\S+ )?not found|no matches for kind"
     "|could not find a package configuration|neither directory contains a build file"
     "|error: +relation \\S+ does not exist"
     "|could not be resolved to an installable|unmet dependencies"
     "|held broken packages|dependency \"[\\w.-]+\" not found"
     "|cmake .* or higher is required|contain cmakelists|no such target"
     "|manifest (?:unknown|for \\S+ not found)|no such (?:service|container|image|volume)\\b|container name .* already in use"
     "|failed to (?:compute cache key|read dockerfile)|the path \".*\" does not exist"
     "|version \".*\" not found|(?:database|bucket) \"?\\S* ?does not exist"
     "|unknown database|not found, try pulling|project not found"
     "|could not resolve to a repository|error while loading shared libraries"
     "|version `\\w+_[\\d.]+' not found|can't open file '.*': \\[errno 2\\]"
     "|cannot open: no such file|env: .*: no such file|file or directory not found: "
     "|no default is configured|cannot find or open"
     "|(?:cannot|can't|failed to) (?:access|change) .*no such file",
     MISSING},
    {"text.missing", CLASS_DETERMINISTIC_CONTRACT, PROOF, 0,
     "(?-i:\\bE(?:404|RESOLVE|TARGET|BADENGINE|USAGE|PUBLISHCONFLICT)\\b|NoSuch(?:Bucket|Key)"
     "|\\(\\w*(?:NotFound|AlreadyExists)(?:Exception|Fault)?\\)"
     "|code = (?:NotFound|AlreadyExists|Unimplemented)\\b"
     "|ResourceNotFound(?:Exception)?|PackagesNotFound|\\bNotFoundError\\b)",
     MISSING},
    {"text.missing", CLASS_DETERMINISTIC_CONTRACT, VERDICT, 0,
     "^no such service: |\\bversion solving failed|: unknown revision (?!or path)"
     "|does not contain a compatible set of packages|^package '.*', required by .*, not found$"
     "|changed significantly since \\S+ was last generated"
     "|^a pull request for branch .* already exists"
     "|^eslint couldn't find a configuration|\\bYN0028\\b"
     "|could not find compatible versions for|^your ruby version is"
     "|^your requirements could not be resolved|^no match for argument",
     MISSING},
};

const struct text_rule *text_rule_table(size_t *ret_count)
{
    *ret_count = sizeof table / sizeof *table;
    return table;
}
