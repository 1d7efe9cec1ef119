/*
 * The machine's clocks. Only the outer layers ask them; rules in src/core get the time as an
 * argument. Not the store's time: that one never runs backwards and belongs to the store.
 *
 * What processes tell each other of is in the machine's clocks, also where they have others of
 * their own (time namespaces): clock_boot_ms and clock_look. clock_mono is for a process alone.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds since 1970-01-01T00:00:00Z; may jump when the clock is set. */
int64_t clock_wall_ms(void);

/* Time since some fixed point; never runs backwards, stands still while the machine sleeps. */
int64_t clock_mono_ms(void);
int64_t clock_mono_ns(void);

/* Time since the machine was booted, the same for all its processes; goes on while it sleeps. */
int64_t clock_boot_ms(void);

/* By how much CLOCK_BOOTTIME of this process is ahead of the machine's. */
int64_t clock_boot_shift_us(void);

/* 0: clock_boot_ms and clock_look tell the machine's clocks. Else the number of the time namespace
 * whose clocks they tell, as it is not known how those go with the machine's. */
uint64_t clock_namespace(void);

/* The three clocks of one moment, in microseconds. */
struct clock_look {
    int64_t wall_us;
    int64_t boottime_us;  /* since the machine started, its sleep included */
    int64_t monotonic_us; /* the same without the time it slept */
};
void clock_look(struct clock_look *ret);

#endif
