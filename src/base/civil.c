/*
 * See civil.h. Years are counted from 1 March, so that the leap day comes last and the length of
 * the months before a month follows one formula; eras of 400 years repeat exactly.
 */
#include "base/civil.h"

enum {
    DAYS_PER_ERA = 146097,    /* 400 years */
    DAYS_FROM_ERA_0 = 719468, /* 0000-03-01 to 1970-01-01 */
    DAYS_PER_100_YEARS = 36524,
    DAYS_PER_4_YEARS = 1461,
};

int64_t floor_div(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

int64_t civil_to_days(int64_t year, int month, int day)
{
    int64_t march_year = month > 2 ? year : year - 1;
    int march_month = month > 2 ? month - 3 : month + 9;
    int64_t era = floor_div(march_year, 400);
    int64_t year_of_era = march_year - era * 400;
    int64_t day_of_year = (153 * march_month + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_FROM_ERA_0;
}

struct civil civil_from_days(int64_t days)
{
    int64_t since = days + DAYS_FROM_ERA_0;
    int64_t era = floor_div(since, DAYS_PER_ERA);
    int64_t day_of_era = since - era * DAYS_PER_ERA;
    /* Taking the leap days out first leaves years of 365 days. */
    int64_t leap_days = day_of_era / (DAYS_PER_4_YEARS - 1) - day_of_era / DAYS_PER_100_YEARS +
                        day_of_era / (DAYS_PER_ERA - 1);
    int64_t year_of_era = (day_of_era - leap_days) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int march_month = (int)((5 * day_of_year + 2) / 153);
    int month = march_month < 10 ? march_month + 3 : march_month - 9;
    return (struct civil){
        .year = era * 400 + year_of_era + (month <= 2),
        .month = month,
        .day = (int)day_of_year - (153 * march_month + 2) / 5 + 1,
    };
}

bool civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int civil_month_days(int64_t year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return lengths[month - 1] + (month == 2 && civil_is_leap(year));
}

int civil_weekday(int64_t days)
{
    /* 1970-01-01 was a Thursday. */
    int64_t weekday = (days % 7 + 4) % 7;
    return (int)(weekday < 0 ? weekday + 7 : weekday);
}
