/* store/pg_url: whatever a store URL says, its password is in no sentence about it. */
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
    if (pg_url_parse(&url, text, &err) < 0) {
        must(strlen(err.text) > 0);
        must(strstr(err.text, "secretsecret") == NULL);
    } else {
        must(strstr(url.where, "secretsecret") == NULL);
        pg_url_done(&url);
    }
    free(text);
    return 0;
}
