/* test-watch.c - a job's processes, its series in bounded memory, and what counts as a leak */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/num.h"
#include "support/test.h"
#include "watch/family.h"
#include "watch/series.h"
#include "watch/trend.h"

#define MIB ((plm_bytes)1 << 20)
#define GIB ((plm_bytes)1 << 30)

enum { POINTS = 600, LOOK_EVERY = 7 };

/* ------------------------------------------------------------------ leaks */

/* a run of POINTS samples, one a second; @share is the part of it that is over */
typedef plm_bytes shape(int i, double share);

static struct plm_watch_trend trend_of(shape *bytes)
{
    static struct plm_watch_point points[POINTS];

    for (int i = 0; i < POINTS; i++) {
        plm_bytes job = bytes(i, (double)i / POINTS);

        points[i] = (struct plm_watch_point){ .time = i, .job = job, .job_low = job };
    }
    return trend_find(points, POINTS, &(struct trend_memory){ 0 });
}

/* struct looks - what was said of a series as it grew */
struct looks {
    struct plm_watch_trend last;
    int changes; /* of the verdict */
};

/* look_all_along() - at @bytes [POINTS], one a second, now and then */
static struct looks look_all_along(const plm_bytes *bytes)
{
    static struct plm_watch_point points[POINTS];
    struct trend_memory memory = { 0 };
    struct looks looks = { 0 };

    for (int i = 0; i < POINTS; i++) {
        bool before = looks.last.leak;

        points[i] = (struct plm_watch_point){ .time = i, .job = bytes[i], .job_low = bytes[i] };
        if (i % LOOK_EVERY == 0)
            looks.last = trend_find(points, (size_t)i + 1, &memory);
        looks.changes += looks.last.leak != before;
    }
    return looks;
}

/* noise() - the same on every machine, from 0 to 1 */
static double noise(int i)
{
    uint32_t bits = (uint32_t)i * 2654435761u;

    bits ^= bits >> 15;
    bits *= 2246822519u;
    return (double)(bits >> 8) / (1 << 24);
}

/* 8 GiB and 2 MiB more every ten seconds: the driver's page is all that one sees */
static plm_bytes leak(int i, double share)
{
    return 8 * GIB + (plm_bytes)(i / 10) * 2 * MIB;
}

static plm_bytes flat(int i, double share)
{
    return 8 * GIB;
}

static plm_bytes noisy(int i, double share)
{
    return 8 * GIB + (plm_bytes)(noise(i) * 512) * MIB;
}

static plm_bytes noisy_leak(int i, double share)
{
    return leak(i, share) + (plm_bytes)(noise(i) * 64) * MIB;
}

/* reserved memory grows quickly, then less and less, as when the longest sequence of so far is met ever more rarely */
static plm_bytes warm_up(int i, double share)
{
    return (plm_bytes)((8 - 4 * exp(-6 * share)) * (double)GIB) / (2 * MIB) * 2 * MIB;
}

static plm_bytes logarithm(int i, double share)
{
    return (plm_bytes)((4 + log(1 + i)) * (double)GIB) / (2 * MIB) * 2 * MIB;
}

/* an evaluation that begins in the middle takes more from then on */
static plm_bytes step(int i, double share)
{
    return share < 0.6 ? 8 * GIB : 9 * GIB;
}

static plm_bytes three_steps(int i, double share)
{
    return (plm_bytes)(8 + (share > 0.45) + (share > 0.6) + (share > 0.85)) * GIB;
}

/* five teeth, and one that is longer than what is judged of */
static plm_bytes saw_tooth(int i, double share)
{
    return 8 * GIB + (plm_bytes)(i % (POINTS / 5)) * 20 * MIB;
}

static plm_bytes long_tooth(int i, double share)
{
    return 8 * GIB + (plm_bytes)((i + POINTS / 3) % (POINTS * 5 / 6)) * 4 * MIB;
}

/* a saw-tooth whose foot rises: what an emptied cache does not give back */
static plm_bytes rising_tooth(int i, double share)
{
    return 8 * GIB + (plm_bytes)(i % 10) * 50 * MIB + (plm_bytes)(i / 10) * 4 * MIB;
}

static plm_bytes loading(int i, double share)
{
    return GIB / 2 + (plm_bytes)i * 64 * MIB;
}

static plm_bytes falling(int i, double share)
{
    return 9 * GIB - (plm_bytes)(i / 10) * 2 * MIB;
}

static void a_leak_is_found_with_its_slope(void **state)
{
    struct plm_watch_trend trend = trend_of(leak);
    double slope = (double)(2 * MIB) / 10;

    assert_true(trend.known && trend.leak);
    assert_true(trend.p < 1e-6);
    assert_true(fabs(trend.slope / slope - 1) < 0.03);
    assert_true(trend.slope_low <= trend.slope && trend.slope <= trend.slope_high);
    assert_true(trend.slope_low > 0);
    assert_true(fabs(trend.from - POINTS / 3) < 2 && trend.to > POINTS - 2);
}

static void a_leak_is_found_under_noise_and_under_a_saw_tooth(void **state)
{
    assert_true(trend_of(noisy_leak).leak);
    assert_true(trend_of(rising_tooth).leak);
}

/* as leak, and its processes end one after the other */
static plm_bytes ended_leak(int i, double share)
{
    return i >= POINTS - 3 ? 0 : i >= POINTS - 10 ? GIB : leak(i, share);
}

/* the memory comes back: an epoch's end */
static plm_bytes ended_epoch(int i, double share)
{
    return i >= POINTS - 60 ? GIB : leak(i, share);
}

static void a_job_that_ends_has_leaked_before(void **state)
{
    assert_true(trend_of(ended_leak).leak);
    assert_false(trend_of(ended_epoch).leak);
}

static void what_is_no_leak_is_not_called_one(void **state)
{
    static const struct {
        const char *name;
        shape *bytes;
    } shapes[] = {
        { "flat", flat },           { "noisy", noisy },
        { "warm-up", warm_up },     { "logarithm", logarithm },
        { "step", step },           { "three steps", three_steps },
        { "saw-tooth", saw_tooth }, { "long tooth", long_tooth },
        { "loading", loading },     { "falling", falling },
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct plm_watch_trend trend = trend_of(shapes[i].bytes);

        assert_true(trend.known);
        if (trend.leak)
            fail_msg("%s is called a leak", shapes[i].name);
    }
}

/* fill_stairs() - @count steps in the run; the time between them is even, or from half to half as much again of that */
static void fill_stairs(plm_bytes *bytes, int count, bool uneven, double phase, plm_bytes step)
{
    double apart = (double)POINTS / count, next = apart * phase;
    plm_bytes now = 8 * GIB;
    int taken = 0;

    for (int i = 0; i < POINTS; i++) {
        for (; i >= next; now += step)
            next += apart * (uneven ? 0.5 + noise(1000 * count + taken++) : 1);
        bytes[i] = now;
    }
}

static void stairs_are_a_leak_and_stay_one(void **state)
{
    static const int counts[] = { 12, 13, 15, 17, 20, 30, 60, 150, 300 };
    static const plm_bytes sizes[] = { 2 * MIB, 20 * MIB };
    plm_bytes bytes[POINTS];

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int phase = 0; phase < 4; phase++)
            for (size_t k = 0; k < 4; k++) {
                fill_stairs(bytes, counts[i], k % 2 > 0, phase / 4.0, sizes[k / 2]);
                struct looks looks = look_all_along(bytes);

                if (!looks.last.leak || looks.changes != 1)
                    fail_msg("%d steps, %d, %zu: leak %d, %d changes", counts[i], phase, k,
                             looks.last.leak, looks.changes);
            }
}

static void a_few_steps_never_are_one(void **state)
{
    plm_bytes bytes[POINTS];

    for (int count = 1; count <= 6; count++)
        for (int k = 0; k < 40; k++) {
            for (int i = 0; i < POINTS; i++) {
                bytes[i] = 8 * GIB;
                for (int step = 0; step < count; step++)
                    bytes[i] += i > POINTS * noise(100 * k + 10 * step + count) ? 500 * MIB : 0;
            }
            struct looks looks = look_all_along(bytes);

            if (looks.last.found)
                fail_msg("%d steps, %d: found at %g", count, k, looks.last.found_at);
        }
}

static void growth_that_becomes_faster_is_a_leak(void **state)
{
    plm_bytes bytes[POINTS];

    for (int i = 0; i < POINTS; i++)
        bytes[i] = 8 * GIB + (plm_bytes)i * (plm_bytes)i * 8192;
    assert_true(look_all_along(bytes).last.leak);
}

static void a_leak_that_ends_is_not_just_denied(void **state)
{
    plm_bytes bytes[POINTS];

    for (int i = 0; i < POINTS; i++)
        bytes[i] = 8 * GIB + (plm_bytes)num_min((uint64_t)i, POINTS / 3) * 4 * MIB;
    struct looks looks = look_all_along(bytes);

    assert_false(looks.last.leak);
    assert_int_equal(looks.changes, 2);
    assert_true(looks.last.found && looks.last.found_at < POINTS / 3);
    double since = (POINTS / 3 - looks.last.found_at) * 4 * (double)MIB;

    assert_true(fabs((double)looks.last.since / since - 1) < 0.05);

    for (int i = POINTS * 2 / 3; i < POINTS; i++)
        bytes[i] = 7 * GIB;
    looks = look_all_along(bytes);
    assert_true(looks.last.found && !looks.last.leak && looks.last.since == 0);
}

static void a_leak_is_still_one_when_it_outgrows_its_beginning(void **state)
{
    plm_bytes bytes[POINTS];

    for (int i = 0; i < POINTS; i++)
        bytes[i] = 4 * GIB + (plm_bytes)i * 32 * MIB;
    struct looks looks = look_all_along(bytes);

    assert_true(looks.last.leak);
    assert_int_equal(looks.changes, 1);
    assert_false(trend_of(loading).leak);
}

static void few_samples_are_not_judged(void **state)
{
    struct plm_watch_point points[120];
    struct trend_memory memory = { 0 };

    for (int i = 0; i < 120; i++)
        points[i] = (struct plm_watch_point){ .time = i, .job = GIB, .job_low = leak(10 * i, 0) };
    assert_false(trend_find(points, 111, &memory).known);
    assert_false(trend_find(points, 0, &memory).known);
    assert_true(trend_find(points, 120, &memory).leak);
    memory = (struct trend_memory){ 0 };
    for (int i = 0; i < 120; i++)
        points[i].job = 0; /* it has not come to the GPU yet */
    assert_false(trend_find(points, 120, &memory).known);
}

static void a_gap_is_not_judged_and_denies_nothing(void **state)
{
    struct plm_watch_point points[200];
    struct trend_memory memory = { 0 };

    for (int i = 0; i < 200; i++)
        points[i] = (struct plm_watch_point){ .time = i < 150 ? i : i + 500,
                                              .job = GIB,
                                              .job_low = leak(10 * i, 0) };
    assert_false(trend_find(points, 200, &memory).known);
    assert_true(trend_find(points, 150, &memory).leak);
    assert_true(trend_find(points, 200, &memory).leak);
}

/* ------------------------------------------------------------------ series */

static void a_long_series_keeps_its_extremes(void **state)
{
    struct arena arena = { 0 };
    struct series series = { 0 };
    plm_bytes most = 0, least = UINT64_MAX, free = UINT64_MAX;
    double before = -1;

    for (int i = 0; i < 5 * SERIES_MOST + 7; i++) {
        plm_bytes job = i == 12345 ? 99 * GIB : i == 54321 ? 1 : 8 * GIB + (plm_bytes)i;
        struct moment moment = { .time = i,
                                 .job = job,
                                 .job_low = job,
                                 .used = job,
                                 .used_low = job,
                                 .free = 100 * GIB - job };

        series_add(&series, &moment, &arena);
        assert_true(series.count <= SERIES_MOST);
    }
    assert_true(series.count > SERIES_MOST / 2);
    for (size_t i = 0; i < series.count; i++) {
        const struct moment *moment = &series.items[i];

        assert_true(moment->time > before);
        assert_true(moment->job_low <= moment->job && moment->used_low <= moment->used);
        before = moment->time;
        most = moment->job > most ? moment->job : most;
        least = moment->job_low < least ? moment->job_low : least;
        free = moment->free < free ? moment->free : free;
    }
    assert_true(most == 99 * GIB && least == 1 && free == GIB);
    arena_finish(&arena);
}

static void a_short_series_is_as_it_was(void **state)
{
    struct arena arena = { 0 };
    struct series series = { 0 };

    for (int i = 0; i < 1000; i++)
        series_add(&series, &(struct moment){ .time = i, .job = (plm_bytes)i }, &arena);
    assert_true(series.count == 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_true(series.items[i].job == i);
    arena_finish(&arena);
}

/* ------------------------------------------------------------------ processes */

/* branch() - a child that has a child; the pipe says the grandchild's number, and both end when told */
static pid_t branch(int *ret_grandchild, bool middle_ends)
{
    int ends[2];
    pid_t child, grandchild = 0;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        grandchild = fork();
        if (grandchild == 0) {
            pause();
            _exit(0);
        }
        if (write(ends[1], &grandchild, sizeof grandchild) != sizeof grandchild)
            _exit(1);
        if (!middle_ends)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    close(ends[0]);
    close(ends[1]);
    *ret_grandchild = grandchild;
    return child;
}

static void the_family_is_all_that_was_started(void **state)
{
    struct arena arena = { 0 };
    struct family family, own;
    int grandchild;
    pid_t child = branch(&grandchild, false);

    assert_true(family_begin(&family, child, &arena));
    assert_true(family_alive(&family));
    assert_true(family_has(&family, child));
    assert_true(family_has(&family, grandchild));
    assert_false(family_has(&family, getpid()));
    assert_false(family_has(&family, getppid()));
    assert_false(family_has(&family, 0));
    assert_false(family_has(&family, INT64_MAX));
    assert_true(family_begin(&own, getpid(), &arena));
    assert_true(family_has(&own, grandchild));
    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_false(family_alive(&family));          /* it waits for its parent, and that is no life */
    assert_true(family_has(&family, grandchild)); /* its parent is gone; it was seen before */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(family_alive(&family));
    kill(grandchild, SIGKILL);
    arena_finish(&arena);
}

static void a_stranger_with_an_old_number_is_no_member(void **state)
{
    struct arena arena = { 0 };
    struct family family;

    assert_true(family_begin(&family, getpid(), &arena));
    family.root.start--;
    assert_false(family_alive(&family));
    assert_false(family_has(&family, getpid()));
    arena_finish(&arena);
}

static void there_is_no_family_of_nobody(void **state)
{
    struct arena arena = { 0 };
    struct family family;

    assert_false(family_begin(&family, 0, &arena));
    assert_false(family_begin(&family, -1, &arena));
    assert_false(family_begin(&family, (int64_t)1 << 40, &arena));
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_is_found_with_its_slope),
        cmocka_unit_test(a_leak_is_found_under_noise_and_under_a_saw_tooth),
        cmocka_unit_test(a_job_that_ends_has_leaked_before),
        cmocka_unit_test(what_is_no_leak_is_not_called_one),
        cmocka_unit_test(stairs_are_a_leak_and_stay_one),
        cmocka_unit_test(a_few_steps_never_are_one),
        cmocka_unit_test(growth_that_becomes_faster_is_a_leak),
        cmocka_unit_test(a_leak_that_ends_is_not_just_denied),
        cmocka_unit_test(a_leak_is_still_one_when_it_outgrows_its_beginning),
        cmocka_unit_test(few_samples_are_not_judged),
        cmocka_unit_test(a_gap_is_not_judged_and_denies_nothing),
        cmocka_unit_test(a_long_series_keeps_its_extremes),
        cmocka_unit_test(a_short_series_is_as_it_was),
        cmocka_unit_test(the_family_is_all_that_was_started),
        cmocka_unit_test(a_stranger_with_an_old_number_is_no_member),
        cmocka_unit_test(there_is_no_family_of_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
