/* core/report: any file, read in any pieces, is survived and understood the same. */
#include "base/text.h"
#include "core/report.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "\x03progress=40 compiling\nversion=1.2\n",
    "\x01{\"progress\": 40, \"text\": \"x\"}\n{\"result\": {\"a\": [1, 2, null]}}\n",
    "\x05waiting=10m for it\nwaiting=0\nretry_after=1h30m\nretry_after=7\n",
    "\x07"
    "class=transient_runtime\nclass=deterministic_repo\r\nbad line\n=\n{\n",
    "\x02{\"waiting\": 1.5, \"retry_after\": \"2s\", \"class\": \"stuck_no_progress\"}",
    NULL,
};

static void check_bounds(const struct report *report)
{
    must(report->progress_percent >= -1 && report->progress_percent <= 100);
    must(report->retry_after_ms >= -1 && report->waiting_ms >= -1);
    must(utf8_valid(report->progress_text, strlen(report->progress_text)));
    must(json_is_object(report->outputs));
    char *text = json_dumps(report->outputs, JSON_COMPACT);
    must(text);
    free(text);
    for (size_t i = 0; i < report->warning_count && i < REPORT_WARNINGS_MAX; i++)
        must(report->warnings[i].text[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct report whole, pieces;
    size_t step = size > 0 ? 1 + data[0] % 16 : 1;
    must(report_init(&whole, NULL) == 0 && report_init(&pieces, NULL) == 0);
    must(report_feed(&whole, data, size, NULL) == 0);
    must(report_end(&whole, NULL) == 0);
    for (size_t at = 0; at < size; at += step)
        must(report_feed(&pieces, data + at, size - at < step ? size - at : step, NULL) == 0);
    must(report_end(&pieces, NULL) == 0);
    check_bounds(&whole);
    must(whole.changed == pieces.changed && whole.warning_count == pieces.warning_count);
    must(json_equal(whole.outputs, pieces.outputs));
    report_done(&whole);
    report_done(&pieces);
    return 0;
}
