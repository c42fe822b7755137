/* A latency histogram with logarithmic buckets: 128 per power of two, so every percentile is
 * exact to 0.8 %. Values are nanoseconds.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

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

#endif
