/* Figures of the store in Prometheus' text format, for `tend stats --prometheus`. */
#ifndef CLI_PROMETHEUS_H
#define CLI_PROMETHEUS_H

struct buf;
struct tend_event_totals;
struct tend_stats;
struct tend_step_totals;

void prometheus_stats(struct buf *out, const struct tend_stats *stats);
/* How often what happened to the jobs of each queue. */
void prometheus_events(struct buf *out, const struct tend_event_totals *totals);
/* The figures that workers send to StatsD, under the same names with _ for dots (SH-14). */
void prometheus_steps(struct buf *out, const struct tend_step_totals *totals);

#endif
