/*
 * BY-2, RC-11, RC-13, CL-3, LS-5: eight workers and two adders on one store, killed with -9 and
 * stopped at random moments for a minute (TEND_CRASH_SECONDS). Nothing acknowledged is lost,
 * nothing is done twice.
 */
#include "chaos.h"

#include "support/store.h"

TEST_WITHIN(crash, killed_and_stopped_workers_lose_nothing_and_do_nothing_twice, 400)
{
    struct chaos chaos;
    struct chaos_findings findings;
    chaos_prepare(&chaos, store_url());
    chaos_start(&chaos);
    chaos_rage(&chaos, chaos_duration_ms(), NULL, NULL);
    chaos_end(&chaos);
    chaos_drain(&chaos);
    chaos_examine(&chaos, &findings);
    /* It was worth its name. */
    int64_t seconds = chaos_duration_ms() / 1000;
    check_int(findings.jobs, >=, 20 * seconds);
    check_int(findings.acknowledged, >=, 20 * seconds);
    check_int(findings.recovered, >=, seconds);
    check_int(findings.died, >=, seconds);
    if (!store_is_postgres())
        check_str(sql_rows("PRAGMA integrity_check"), "ok\n");
}
