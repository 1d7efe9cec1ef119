/* base/json: the answer fits the text, and what was accepted is valid UTF-8. */
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

#include <string.h>

const char *const fuzz_seeds[] = {
    "null",
    "-12.5e+10",
    "\"text \\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
    "[true,false,null,0,1.5,\"a\",[],{}]",
    "{\"id\": 17, \"payload\": {\"list\": [1, 2, [3, [4]]], \"empty\": {}}, \"note\": \"ok\"}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    " \n\t{ \"a\" : [ 1 , 2 ] }\r\n ",
    NULL,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct json_fault fault = {0};
    if (json_check(text, size, &fault) == 0) {
        must(utf8_valid(text, size));
        must(size > 0);
        return 0;
    }
    must(fault.offset <= size);
    must(fault.line >= 1 && fault.line <= size + 1);
    must(fault.column >= 1 && fault.column <= size + 1);
    must(fault.reason && strlen(fault.reason) > 0);
    return 0;
}
