/*
 * test-cudnn-attention.c - what cuDNN is asked about attention, and what it answers: against recordings of PyTorch, and a double of libcudnn
 *
 * With the argument "real" the libcudnn.so.9 that PLIMSOLL_TEST_CUDNN names must answer as recorded; without that variable, status 77.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cudnn.h"
#include "device/cudnn_table.h"
#include "plimsoll/plimsoll.h"
#include "support/test.h"
#include "yaml/file.h"

enum { FILE_BYTES_MAX = 1 << 20 };

/* struct record - a line of a recording: "90 attention bf16 open 2x12x50x64 12x50x64 = 256" */
struct record {
    struct cudnn_gpu gpu;
    struct cudnn_call call;
    struct cudnn_workspaces workspaces;
    const char *rest; /* what follows the line */
};

static char *read_all(struct arena *arena, const char *path)
{
    const char *text;
    size_t length;

    assert_int_equal(file_read(path, FILE_BYTES_MAX, arena, &text, &length, NULL), PLM_OK);
    return arena_copy(arena, text, length);
}

/* next_record() - skips comments and empty lines; false at the end */
static bool next_record(const char **text, struct record *ret)
{
    char line[CUDNN_LINE_MAX];
    int at = 0;

    while (**text == '#' || **text == '\n')
        *text += strcspn(*text, "\n") + 1;
    if (!**text)
        return false;
    size_t length = strcspn(*text, "\n");

    assert_true(length < sizeof line);
    memcpy(line, *text, length);
    line[length] = '\0';
    *text += length + 1;
    char *equals = strstr(line, " =");

    assert_non_null(equals);
    *equals = '\0';
    ret->gpu = (struct cudnn_gpu){ .sm_count = 132, .threads_per_sm = 2048 };
    assert_int_equal(sscanf(line, "%d %n", &ret->gpu.cc, &at), 1);
    assert_true(cudnn_call_read(line + at, &ret->call));
    assert_true(cudnn_workspaces_read(equals + 2, &ret->workspaces));
    ret->rest = *text;
    return true;
}

/* struct loaded - the double in this process, told of one device */
struct loaded {
    struct backend backend;
    backend_desc device;
    void (*fail_at)(long nth);
    long (*alive)(void);
};

static void symbol(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);

    assert_non_null(address);
    memcpy(ret_function, &address, sizeof address);
}

static struct loaded load_double(const struct cudnn_gpu *gpu)
{
    struct loaded l;
    char message[CUDNN_MESSAGE_MAX];
    void *library = dlopen(TEST_CUDNN, RTLD_NOW | RTLD_LOCAL);

    assert_non_null(library);
    symbol(library, "double_cudnn_fail", &l.fail_at);
    symbol(library, "double_cudnn_alive", &l.alive);
    assert_null(cudnn_plan_load(TEST_CUDNN, &l.backend, message));
    l.device = cudnn_plan_device(&l.backend, gpu, message);
    assert_non_null(l.device);
    return l;
}

static bool plan(const struct loaded *l, const struct record *r, struct cudnn_workspaces *ret)
{
    char message[CUDNN_MESSAGE_MAX];

    return cudnn_plan_call(&l->backend, &(struct cudnn_blas){ 0 }, l->device, r->gpu.cc, &r->call,
                           ret, message);
}

static void settle(const char *plans)
{
    if (plans)
        setenv("PLM_DOUBLE_CUDNN_A", plans, 1);
    else
        unsetenv("PLM_DOUBLE_CUDNN_A");
}

/* ------------------------------------------------------------------ questions */

static void the_graphs_are_those_of_pytorch(void **state)
{
    struct arena arena = { 0 };
    const char *text = read_all(&arena, TEST_SOURCE "/tests/unit/cudnn-graphs.txt");
    char path[] = "/tmp/test-cudnn-XXXXXX";
    struct record r;
    int file = mkstemp(path), count = 0;

    assert_true(file >= 0);
    close(file);
    settle(NULL);
    setenv("PLM_DOUBLE_CUDNN_GRAPH", path, 1);
    for (; next_record(&text, &r); count++) {
        struct loaded l = load_double(&r.gpu);
        struct cudnn_workspaces w;

        assert_int_equal(truncate(path, 0), 0);
        assert_true(plan(&l, &r, &w));
        const char *drawn = read_all(&arena, path);

        if (strncmp(r.rest, drawn, strlen(drawn)) != 0)
            fail_msg("graph %d is\n%s", count + 1, drawn);
        text += strlen(drawn);
        assert_true(*text == '\n' || *text == '\0'); /* nor is there more in the recording */
        l.backend.destroy(l.device);
    }
    assert_int_equal(count, 17);
    unsetenv("PLM_DOUBLE_CUDNN_GRAPH");
    unlink(path);
    arena_finish(&arena);
}

static void what_the_front_end_keeps_is_added_to_the_plan(void **state)
{
    static const struct {
        const char *line;
        plm_bytes bytes;
    } cases[] = {
        { "90 attention f16 open 2x4x8x16 4x8x16 = 0", 5 },
        { "90 attention-inference f16 open 2x4x8x16 4x8x16 = 0", 5 },
        /* a float for each row, and for each element of the query's gradient */
        { "90 attention-backward f16 open 2x4x8x16 2x8x32 = 0", 5 + 4 * 64 + 4 * 64 * 16 },
        { "90 attention-backward f16 open 2x4x8x256 4x8x256 = 0", 5 + 4 * 64 + 4 * 64 * 256 },
        { "100 attention-backward f16 open 2x4x8x256 4x8x256 = 0", 5 + 4 * 64 },
        { "103 attention-backward f16 open 2x4x8x256 4x8x256 = 0", 5 + 4 * 64 },
        { "120 attention-backward f16 open 2x4x8x256 4x8x256 = 0", 5 + 4 * 64 + 4 * 64 * 256 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].line;
        struct record r;
        struct cudnn_workspaces w;

        assert_true(next_record(&text, &r));
        struct loaded l = load_double(&r.gpu);

        settle("5");
        assert_true(plan(&l, &r, &w));
        assert_int_equal(w.count, 1);
        assert_int_equal(w.bytes[0], cases[i].bytes);
        l.backend.destroy(l.device);
    }
}

static void the_first_plan_that_can_be_made_is_the_only_one(void **state)
{
    const char *text = "90 attention f16 causal 2x4x8x16 4x8x16 = 0";
    struct record r;
    struct cudnn_workspaces w;

    assert_true(next_record(&text, &r));
    struct loaded l = load_double(&r.gpu);

    settle("! 70 20 0");
    assert_true(plan(&l, &r, &w));
    assert_int_equal(w.count, 1);
    assert_int_equal(w.bytes[0], 70);
    settle("! !");
    assert_false(plan(&l, &r, &w));
    l.backend.destroy(l.device);
}

/* every call of the library fails once; nothing is left behind, and no failure is taken for an answer */
static void any_call_may_fail(void **state)
{
    static const char *const lines[] = {
        "90 attention bf16 causal 2x4x8x16 4x8x16 = 0",
        "90 attention-backward bf16 masked 2x4x8x16 2x8x16 = 0",
        "90 attention-backward f16 causal 2x4x8x16 4x8x16 = 0",
        "100 attention-backward bf16 open 2x4x8x256 2x8x256 = 0",
    };

    settle("70");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *text = lines[i];
        struct record r;
        struct cudnn_workspaces w, right;
        long nth = 1;

        assert_true(next_record(&text, &r));
        struct loaded l = load_double(&r.gpu);
        long alive = l.alive();

        assert_true(plan(&l, &r, &right));
        for (l.fail_at(nth); !plan(&l, &r, &w); l.fail_at(++nth))
            assert_int_equal(l.alive(), alive);
        l.fail_at(0);
        assert_true(nth >
                    100); /* so many calls there are, and the one after them is none of ours */
        assert_int_equal(w.bytes[0], right.bytes[0]);
        assert_int_equal(l.alive(), alive);
        l.backend.destroy(l.device);
    }
}

/* ------------------------------------------------------------------ answers */

static void the_shipped_tables_say_what_pytorch_allocates(void **state)
{
    static const char *const folders[] = { TEST_SOURCE "/calib/cudnn" };
    struct arena arena = { 0 };
    const char *text = read_all(&arena, TEST_SOURCE "/tests/unit/cudnn-attention.txt");
    struct cudnn_table table = { 0 };
    struct plm_error error;
    struct record r;
    int cc = 0, known = 0;

    while (next_record(&text, &r)) {
        if (r.gpu.cc != cc &&
            cudnn_table_find(folders, 1, 92600, r.gpu.cc, &arena, &table, &error) != PLM_OK)
            fail_msg("%s", error.message);
        cc = r.gpu.cc;
        const struct cudnn_answer *answer = cudnn_answers_find(&table.answers, &r.call);

        if (!answer)
            continue;
        assert_int_equal(answer->bytes[0], r.workspaces.bytes[0]);
        known++;
    }
    assert_true(known >= 40);
    arena_finish(&arena);
}

static void a_real_libcudnn_says_what_pytorch_allocates(void **state)
{
    struct arena arena = { 0 };
    const char *text = read_all(&arena, TEST_SOURCE "/tests/unit/cudnn-attention.txt");
    struct cudnn *cudnn = cudnn_create();
    struct record r;

    cudnn_add_library(cudnn, getenv("PLIMSOLL_TEST_CUDNN"), true);
    while (next_record(&text, &r)) {
        struct cudnn_workspaces w;

        assert_int_equal(cudnn_ask(cudnn_open(cudnn, 92600, &r.gpu), &r.call, &w), CUDNN_LIBRARY);
        assert_int_equal(w.bytes[0], r.workspaces.bytes[0]);
    }
    cudnn_destroy(cudnn);
    arena_finish(&arena);
}

/* ------------------------------------------------------------------ in an estimate */

/* estimate() - of a small Llama on a b200, where no formula knows the backward of so short a sequence */
static void estimate(const char *library, plm_bytes *ret_reserved, struct plm_result *ret)
{
    struct plm_context *context = plm_context_create();
    const struct plm_device *device;
    struct plm_model *model;
    struct plm_estimate *made;
    struct plm_error error;

    plm_context_add_models(context, TEST_SOURCE "/models");
    plm_context_add_devices(context, TEST_SOURCE "/calib/devices");
    if (library)
        plm_context_add_cudnn(context, library, true);
    assert_int_equal(plm_device_find(context, "b200", &device, &error), PLM_OK);
    assert_int_equal(plm_model_load(context, "llama-3.2-1b", &model, &error), PLM_OK);
    struct plm_strategy strategy = {
        .batch = 1, .seq = 64, .precision = PLM_PRECISION_BF16, .device = device
    };

    assert_int_equal(plm_estimate(model, &strategy, &made, &error), PLM_OK);
    *ret = *plm_estimate_result(made);
    *ret_reserved = ret->peak.reserved;
    plm_estimate_destroy(made);
    plm_model_destroy(model);
    plm_context_destroy(context);
}

static void an_estimate_has_what_was_planned_for_attention(void **state)
{
    plm_bytes little, much;
    struct plm_result r;

    settle("0");
    estimate(TEST_CUDNN, &little, &r);
    assert_false(r.workspace_unknown);
    assert_true(r.cudnn.asked > 0 && r.cudnn.asked % (2 * 16) == 0); /* directions, layers */
    settle("68719476736");
    estimate(TEST_CUDNN, &much, &r);
    assert_true(much >= little + UINT64_C(68719476736));
    settle("!");
    estimate(TEST_CUDNN, &little, &r);
    assert_true(r.workspace_unknown);
    assert_int_equal(r.cudnn.asked, 0);
    assert_int_equal(r.warning_count, 0);
}

static void a_driver_or_its_stub_is_loaded_for_attention(void **state)
{
    struct cudnn *cudnn = cudnn_create();
    const struct cudnn_gpu gpu = { 90, 132, 2048 };
    struct cudnn_call call;
    struct cudnn_workspaces w;

    settle(NULL);
    setenv("PLM_DOUBLE_CUDNN_DOES", "want-driver", 1);
    cudnn_add_library(cudnn, TEST_CUDNN, true);
    assert_true(cudnn_call_read("attention f16 open 2x4x8x16 4x8x16", &call));
    assert_int_equal(cudnn_ask(cudnn_open(cudnn, 92600, &gpu), &call, &w), CUDNN_LIBRARY);
    unsetenv("PLM_DOUBLE_CUDNN_DOES");
    cudnn_destroy(cudnn);
}

static void a_library_that_crashes_over_attention_still_plans_convolutions(void **state)
{
    struct cudnn *cudnn = cudnn_create();
    const struct cudnn_gpu gpu = { 90, 132, 2048 };
    struct cudnn_call call;
    struct cudnn_workspaces w;

    settle(NULL);
    setenv("PLM_DOUBLE_CUDNN_DOES", "crash-attention", 1);
    cudnn_add_library(cudnn, TEST_CUDNN, true);
    struct cudnn_planner *planner = cudnn_open(cudnn, 92600, &gpu);

    assert_true(cudnn_call_read("attention f16 open 2x4x8x16 4x8x16", &call));
    assert_int_equal(cudnn_ask(planner, &call, &w), CUDNN_UNKNOWN);
    assert_non_null(strstr(cudnn_refusal(planner), "its process ended by signal 11"));
    assert_int_equal(cudnn_ask(planner, &call, &w), CUDNN_UNKNOWN);
    assert_true(cudnn_call_read("forward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 stride 2x1 "
                                "dilation 1x1",
                                &call));
    assert_int_equal(cudnn_ask(planner, &call, &w), CUDNN_LIBRARY);
    unsetenv("PLM_DOUBLE_CUDNN_DOES");
    cudnn_destroy(cudnn);
}

/* ------------------------------------------------------------------ the driver that is here */

static char driver[] = "/tmp/test-cudnn-XXXXXX"; /* settings of the double of CUDA's driver */

/* install_driver() - with a GPU that no test plans for */
static int install_driver(void **state)
{
    int file = mkstemp(driver);

    if (file < 0)
        return -1;
    dprintf(file, "state %s.state\ncapability 75\n", driver);
    close(file);
    return setenv("PLM_DOUBLE", driver, 1);
}

static int remove_driver(void **state)
{
    char path[64];

    snprintf(path, sizeof path, "%s.state", driver);
    unlink(path);
    return unlink(driver);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest real[] = {
        cmocka_unit_test(a_real_libcudnn_says_what_pytorch_allocates),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graphs_are_those_of_pytorch),
        cmocka_unit_test(what_the_front_end_keeps_is_added_to_the_plan),
        cmocka_unit_test(the_first_plan_that_can_be_made_is_the_only_one),
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(the_shipped_tables_say_what_pytorch_allocates),
        cmocka_unit_test(an_estimate_has_what_was_planned_for_attention),
        cmocka_unit_test(a_driver_or_its_stub_is_loaded_for_attention),
        cmocka_unit_test(a_library_that_crashes_over_attention_still_plans_convolutions),
    };

    if (argc > 1)
        return getenv("PLIMSOLL_TEST_CUDNN") ? cmocka_run_group_tests(real, NULL, NULL) : 77;
    return cmocka_run_group_tests(tests, install_driver, remove_driver);
}
