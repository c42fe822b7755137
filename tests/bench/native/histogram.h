/* A latency histogram with logarithmic buckets: 128 per power of two, so every percentile is
 * exact to 0.8 %. Values are nanoseconds.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

enum { SUB_BITS = 7, OCTAVES = 41, BUCKETS = OCTAVES << SUB_BITS };

struct histogram {
    uint64_t count, max, sum;
    uint64_t buckets[BUCKETS];
};

static inline void record(struct histogram *histogram, int64_t signed_value) {
    uint64_t value = signed_value > 0 ? (uint64_t)signed_value : 0;
    int shift = value >> (SUB_BITS + 1) ? 63 - __builtin_clzll(value) - SUB_BITS : 0;
    uint64_t index = ((uint64_t)shift << SUB_BITS) + (value >> shift);
    histogram->buckets[index < BUCKETS ? index : BUCKETS - 1]++;
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max) histogram->max = value;
}

/* The middle of the bucket that holds the given share of all values; 0 when there is none. */
static inline double percentile(const struct histogram *histogram, double share) {
    uint64_t wanted = (uint64_t)((double)histogram->count * share + 0.5), seen = 0;
    if (wanted < 1) wanted = 1;
    for (uint64_t index = 0; index < BUCKETS; index++) {
        seen += histogram->buckets[index];
        if (seen < wanted) continue;
        int shift = index >> (SUB_BITS + 1) ? (int)(index >> SUB_BITS) - 1 : 0;
        uint64_t low = (index - ((uint64_t)shift << SUB_BITS)) << shift;
        return (double)low + (double)((UINT64_C(1) << shift) - 1) / 2;
    }
    return 0;
}

/* Prints the JSON object of percentiles in microseconds. */
static inline void print_latency(const struct histogram *histogram) {
    static const struct { const char *name; double share; } percentiles[] = {
        {"p10", .1}, {"p50", .5}, {"p90", .9}, {"p99", .99}, {"p99.9", .999}, {"p99.99", .9999}};
    printf("{");
    for (size_t index = 0; index < sizeof percentiles / sizeof *percentiles; index++)
        printf("\"%s\": %.1f, ", percentiles[index].name,
               percentile(histogram, percentiles[index].share) / 1e3);
    printf("\"max\": %.1f, \"mean\": %.1f}", (double)histogram->max / 1e3,
           histogram->count ? (double)histogram->sum / (double)histogram->count / 1e3 : 0.0);
}

#endif
