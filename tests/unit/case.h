/* For tests that walk a table of cases: a failed check says which case it was. */
#ifndef UNIT_CASE_H
#define UNIT_CASE_H

#include "support/test.h"

#define CASES(table) (sizeof(table) / sizeof *(table))

#define check_case(condition, text)                                                                \
    do {                                                                                           \
        test_count_check();                                                                        \
        if (!(condition))                                                                          \
            test_fail(__FILE__, __LINE__, "case '%s': %s", (text), #condition);                    \
    } while (0)

#define check_case_int(actual, expected, text)                                                     \
    do {                                                                                           \
        long long case_actual_ = (long long)(actual);                                              \
        long long case_expected_ = (long long)(expected);                                          \
        test_count_check();                                                                        \
        if (case_actual_ != case_expected_)                                                        \
            test_fail(__FILE__, __LINE__, "case '%s': %s is %lld, not %lld", (text), #actual,      \
                      case_actual_, case_expected_);                                               \
    } while (0)

#endif
