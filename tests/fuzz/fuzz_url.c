/* store/pg_url: what cannot be read is refused in a sentence that does not repeat the password. */
#include "fuzz/fuzz.h"
#include "store/pg_db.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "postgresql://ann:secretsecret@db.example.org:5432/work?tend_schema=jobs",
    "postgresql://a,b:5433/work?target_session_attrs=any&tend_pooler=1",
    "postgres://%2Ftmp%2Fsocket/work?password=secretsecret&tend_schema=%20",
    "postgresql:///?host=/tmp&port=5432",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pg_url url;
    struct err err = {0};
    char *text = fuzz_text(data, size);
    /* What is given to a parameter of our own is no password, and is shown. */
    const char *ours = strstr(text, "tend_");
    bool shown = ours != NULL && strstr(ours, "secretsecret") != NULL;
    if (pg_url_parse(&url, text, &err) < 0) {
        must(strlen(err.text) > 0);
        must(shown || strstr(err.text, "secretsecret") == NULL);
    } else {
        must(url.schema[0] != '\0' && url.keywords != NULL);
        pg_url_done(&url);
    }
    free(text);
    return 0;
}
