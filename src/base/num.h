/* base/num.h - checked 64-bit arithmetic and the few roundings that byte counts need */
#ifndef PLM_BASE_NUM_H
#define PLM_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

#include "plimsoll/types.h"

/* Each returns true when the result fits, and writes it only then. */
static inline bool bytes_add(plm_bytes a, plm_bytes b, plm_bytes *ret)
{
    plm_bytes sum;

    return !__builtin_add_overflow(a, b, &sum) && (*ret = sum, true);
}

static inline bool bytes_mul(plm_bytes a, plm_bytes b, plm_bytes *ret)
{
    plm_bytes product;

    return !__builtin_mul_overflow(a, b, &product) && (*ret = product, true);
}

static inline bool num_add(int64_t a, int64_t b, int64_t *ret)
{
    int64_t sum;

    return !__builtin_add_overflow(a, b, &sum) && (*ret = sum, true);
}

static inline bool num_sub(int64_t a, int64_t b, int64_t *ret)
{
    int64_t difference;

    return !__builtin_sub_overflow(a, b, &difference) && (*ret = difference, true);
}

static inline bool num_mul(int64_t a, int64_t b, int64_t *ret)
{
    int64_t product;

    return !__builtin_mul_overflow(a, b, &product) && (*ret = product, true);
}

static inline uint64_t num_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t num_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* num_ceil_div() - a / b rounded up; b > 0 */
static inline uint64_t num_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* num_round_up() - the smallest multiple of @unit that is >= @n; n must be at least one unit below 2^64 */
static inline uint64_t num_round_up(uint64_t n, uint64_t unit)
{
    return num_ceil_div(n, unit) * unit;
}

/* num_log2() - floor(log2(n)); n > 0 */
static inline unsigned num_log2(uint64_t n)
{
    return 63 - (unsigned)__builtin_clzll(n);
}

/* num_floor_power2() - the largest power of two <= n; 1 when n is 0 */
static inline uint64_t num_floor_power2(uint64_t n)
{
    return n == 0 ? 1 : UINT64_C(1) << num_log2(n);
}

/* num_compare_doubles() - for qsort(): ascending */
static inline int num_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#endif
