/* core/redact over many texts: what only looks like a secret is left alone (SH-15). */
#include "base/buf.h"
#include "base/rng.h"
#include "unit/redact_case.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* Lines, and how many of them were changed. */
struct lines {
    const struct redactor *redactor;
    long all, changed;
};

static void pass_line(struct lines *lines, const char *line)
{
    struct arena own;
    arena_init(&own);
    const char *clean = redact_text(lines->redactor, &own, line);
    lines->all++;
    if (strcmp(clean, line) != 0) {
        lines->changed++;
        printf("# changed: %.200s\n#      to: %.200s\n", line, clean);
    }
    arena_done(&own);
}

static void pass_file(struct lines *lines, const char *name)
{
    static char line[65536];
    FILE *file = open_data(name);
    while (fgets(line, sizeof line, file))
        pass_line(lines, line);
    fclose(file);
}

TEST(redact_harmless, SH_15_lines_that_only_look_secret_are_left_alone)
{
    struct redactor *redactor = plain_redactor();
    struct lines lines = {.redactor = redactor};
    pass_file(&lines, "secrets/harmless.txt");
    check_int(lines.all, >, 200);
    check_int(lines.changed, ==, 0);
    redactor_free(redactor);
    arena_done(&arena);
}

/* The outputs of failing tools that the verdicts are measured with. */
TEST(redact_harmless, SH_15_outputs_of_tools_are_left_alone_but_for_one_line_in_ten_thousand)
{
    static const char *const parts[] = {"tune", "measure"};
    struct redactor *redactor = plain_redactor();
    struct lines lines = {.redactor = redactor};
    for (size_t i = 0; i < CASES(parts); i++) {
        const char *source = getenv("TEND_SOURCE");
        glob_t found;
        check_int(
            glob(arena_printf(&arena, "%s/tests/corpus/%s/*.txt", source ? source : ".", parts[i]),
                 0, NULL, &found),
            ==, 0);
        for (size_t j = 0; j < found.gl_pathc; j++)
            pass_file(&lines, strstr(found.gl_pathv[j], "corpus/"));
        globfree(&found);
    }
    printf("# %ld of %ld lines were changed\n", lines.changed, lines.all);
    check_int(lines.all, >, 10000);
    check_int(lines.changed * 10000, <=, lines.all + 9999);
    redactor_free(redactor);
    arena_done(&arena);
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

static const char hex[] = "0123456789abcdef";
static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_some(struct buf *line, struct rng *rng, const char *alphabet, uint64_t count)
{
    for (; count > 0; count--)
        buf_putc(line, alphabet[rng_below(rng, strlen(alphabet))]);
}

static void put_uuid(struct buf *line, struct rng *rng)
{
    static const uint64_t groups[] = {8, 4, 4, 4, 12};
    for (size_t i = 0; i < CASES(groups); i++) {
        buf_puts(line, i > 0 ? "-" : "");
        put_some(line, rng, hex, groups[i]);
    }
}

static void put_path(struct buf *line, struct rng *rng)
{
    static const char *const words[] = {
        "src",  "core",     "auth",   "token",  "password", "secret", "key",     "test",
        "util", "session",  "cookie", "crypto", "login",    "cache",  "service", "handler",
        "lib",  "provider", "model",  "index",  "account",  "user",   "admin",   "config",
    };
    static const char *const ends[] = {".c", ".go", ".ts", ".py", ".rs", ".java", ".js", ".h"};
    for (uint64_t n = 2 + rng_below(rng, 4); n > 0; n--)
        buf_printf(line, "%s%s", words[rng_below(rng, CASES(words))], n > 1 ? "/" : "");
    if (rng_below(rng, 2))
        buf_printf(line, "_%s", words[rng_below(rng, CASES(words))]);
    buf_puts(line, ends[rng_below(rng, CASES(ends))]);
}

/* A line as a build, a test run or a package manager prints it. The bytes that %… stand for are
 * made up: h hex, b base64, u a UUID, p a path, d a number, w a word, v a version. */
static void put_line(struct buf *line, struct rng *rng)
{
    static const char *const templates[] = {
        "commit %h40",
        "sha256:%h64",
        "%h64  %p",
        "%h40 %h40 100644 %p",
        "index %h7..%h7 100644",
        "diff --git a/%p b/%p",
        "%p:%d:%d: warning: unused variable '%w' [-Wunused-variable]",
        "%p:%d:%d: error: '%w_key' undeclared (first use in this function)",
        "%p:%d: undefined reference to `%w_token'",
        "[%d/%d] Compiling C object %p.o",
        "cc -O2 -I%p -DKEY_%d=%d -c %p -o %p.o",
        "ok %d - %w password %w",
        "not ok %d - %w token %w",
        "--- PASS: Test%wToken (0.0%ds)",
        "PASS %p (%d.%d s)",
        "test %w::%w::secret ... ok",
        "=== RUN   Test%w/secret_%w_is_kept",
        "    ✓ %w keeps the session cookie (%d ms)",
        "request_id=%u status=%d",
        "trace %h32 span %h16",
        "%u",
        "\"id\": \"%u\",",
        "etag: \"%h32\"",
        "integrity sha512-%b86==",
        "\"integrity\": \"sha512-%b86==\",",
        "data:image/png;base64,%b400",
        "src=\"data:image/gif;base64,%b120==\"",
        "%h12: Pull complete",
        "Digest: sha256:%h64",
        "Removing intermediate container %h12",
        " ---> %h12",
        "layer sha256:%h64 %d bytes",
        "go: downloading example.org/%w v%v",
        "example.org/%w v%v h1:%b43=",
        "Downloaded %w v%v",
        "Compiling %w-%w v%v",
        "npm WARN deprecated %w@%v: use %w instead",
        "+ %w@%v",
        "Get:%d http://deb.example.org %w %v",
        "Unpacking lib%w-%w:amd64 (%v) ...",
        "-rw-r--r-- 1 root root %d Jun 11 10:%d %p",
        "key: %w",
        "cache_key=%w-%h40",
        "cache key: %w-linux-%h64",
        "public_key = %b43=",
        "token: unexpected %w",
        "tokens: %d",
        "max_tokens=%d",
        "total_tokens: %d",
        "seed=%d",
        "Random seed: %d",
        "password: required",
        "password must be %d characters",
        "%w: passed",
        "  %d passing (%ds)",
        "author = %w <%w@example.org>",
        "sort_key=%w_%d",
        "primary_key: %w_id",
        "  at %w.%w.Token%w(%w.java:%d)",
        "  File \"/app/%p\", line %d, in %w_password",
        ".%w-token { color: #%h6; }",
        "--%w-key-size: %dpx;",
        "const %w = require('./%w');",
        "  const token = tokens[%d];",
        "  if (token === %w) {",
        "  return this.%wKey;",
        "  password = args.%w;",
        "  secret = %w;",
        "  %w_token *next;",
        "#define %w_KEY %d",
        "  \"%w_key\": \"%w\",",
        "  key%d: %w",
        "pinned %w to %v",
        "PIN %d: high",
        "ping %d ms",
        "%d.%d.%d.%d - - \"GET /%w/%w?page=%d HTTP/1.1\" 200 %d",
        "Cookie: none",
        "auth=%w",
        "auth method %w",
        "signature %w",
        "Signed-off-by: %w <%w@example.org>",
        "Fetched %d kB in %ds (%d kB/s)",
        "remote: Counting objects: 100%% (%d/%d), done.",
        "Receiving objects:  %d%% (%d/%d), %d.00 KiB | %d.00 MiB/s",
        "0x%h16 in %w_key () from %p",
        "  %h8:\t%h2 %h2 %h2 %h2 \tmov %w,%w",
        "%h8: %h4 %h4 %h4 %h4 %h4 %h4 %h4 %h4  ................",
        "arn:aws:iam::%d:role/%w",
        "s3://%w-%w/%h32/%p",
        "https://%w.example.org/%p?v=%h8#%h40",
        "resolved \"https://registry.example.org/%w/-/%w-%v.tgz#%h40\"",
        "%w-%h10-%w5 1/1 Running",
        "pod/%w-%h9-%w5 created",
        "job.batch/%w-%d created",
        "secret/%w-%w created",
        "_ZN%d%w%d%wE%w",
        "checksum %h32 ok",
        "md5 %h32",
        "crc32 %h8",
        "build-id %h40",
        "snapshot %h8 saved",
        "[%d%%] Building CXX object %p.o",
        "BUILD SUCCESSFUL in %ds",
        "Downloading https://files.example.org/packages/%h2/%h2/%h60/%w-%v.whl (%d kB)",
    };
    const char *at = templates[rng_below(rng, CASES(templates))];
    for (; *at; at++) {
        if (*at != '%' || at[1] == '%') {
            buf_putc(line, *at);
            at += *at == '%';
            continue;
        }
        char kind = *++at;
        uint64_t count = strtoull(at + 1, NULL, 10);
        at += strspn(at + 1, "0123456789");
        switch (kind) {
        case 'h':
            put_some(line, rng, hex, count);
            break;
        case 'b':
            put_some(line, rng, base64, count);
            break;
        case 'u':
            put_uuid(line, rng);
            break;
        case 'p':
            put_path(line, rng);
            break;
        case 'd':
            buf_int(line, (int64_t)rng_below(rng, rng_below(rng, 4) ? 1000 : 10000000));
            break;
        case 'v':
            buf_printf(line, "%d.%d.%d", (int)rng_below(rng, 30), (int)rng_below(rng, 30),
                       (int)rng_below(rng, 90));
            break;
        default:
            put_some(line, rng, letters, count > 0 ? count : 3 + rng_below(rng, 9));
            break;
        }
    }
}

TEST(redact_harmless, SH_15_builds_are_left_alone_but_for_one_line_in_ten_thousand)
{
    enum { LINES = 200000 };
    struct redactor *redactor = plain_redactor();
    struct lines lines = {.redactor = redactor};
    struct rng rng;
    struct buf line;
    rng_seed(&rng, 12);
    buf_init(&line);
    for (int i = 0; i < LINES; i++) {
        buf_clear(&line);
        put_line(&line, &rng);
        pass_line(&lines, line.data);
    }
    printf("# %ld of %ld lines were changed\n", lines.changed, lines.all);
    check_int(lines.changed * 10000, <=, lines.all);
    buf_done(&line);
    redactor_free(redactor);
    arena_done(&arena);
}
