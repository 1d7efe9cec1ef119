/*
 * Calendar arithmetic: days since 1970-01-01 and year, month, day, in the Gregorian calendar
 * extended to all times. UTC only; knows no zones, no leap seconds, no locale.
 */
#ifndef BASE_CIVIL_H
#define BASE_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#define MS_PER_SECOND INT64_C(1000)
#define MS_PER_MINUTE (60 * MS_PER_SECOND)
#define MS_PER_HOUR (60 * MS_PER_MINUTE)
#define MS_PER_DAY (24 * MS_PER_HOUR)

struct civil {
    int64_t year; /* 0 is the year before year 1 */
    int month;    /* 1 to 12 */
    int day;      /* 1 to 31 */
};

/* month and day must be in range for the calendar; see civil_month_days. */
int64_t civil_to_days(int64_t year, int month, int day);
struct civil civil_from_days(int64_t days);

bool civil_is_leap(int64_t year);
int civil_month_days(int64_t year, int month);

/* 0 is Sunday, 6 is Saturday. */
int civil_weekday(int64_t days);

/* Division that rounds towards minus infinity, so that times before 1970 need no special case. */
int64_t floor_div(int64_t value, int64_t by);

#endif
