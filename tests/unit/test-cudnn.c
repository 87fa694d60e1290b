/* test-cudnn.c - what answers for cuDNN: calls as text, the process, the cache, tables; against a double of libcudnn */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "device/cudnn.h"
#include "device/cudnn_process.h"
#include "device/cudnn_table.h"
#include "plimsoll/plimsoll.h"
#include "support/test.h"

static const struct cudnn_gpu gpu = { .cc = 80, .sm_count = 108, .threads_per_sm = 2048 };

static const char line[] = "forward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1";

static struct cudnn_call call_of(const char *text)
{
    struct cudnn_call call;

    assert_true(cudnn_call_read(text, &call));
    return call;
}

/* settle() - the double's settings; NULL takes the default */
static void settle(const char *instant, const char *fallback, const char *doing)
{
    static const char *const names[] = { "PLM_DOUBLE_CUDNN_INSTANT", "PLM_DOUBLE_CUDNN_FALLBACK",
                                         "PLM_DOUBLE_CUDNN_DOES", "PLM_DOUBLE_CUDNN_VERSION" };
    const char *values[] = { instant, fallback, doing, NULL };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
}

static void assert_plans(const struct cudnn_workspaces *w, const char *expected)
{
    char text[CUDNN_LINE_MAX];

    cudnn_workspaces_write(w, text);
    assert_string_equal(text, expected);
}

/* ------------------------------------------------------------------ text */

static void a_call_is_read_as_it_was_written(void **state)
{
    static const char *const lines[] = {
        line,
        "data f32 nchw 1x3x224x224 64x3x7x7 pad 3x3 stride 2x2 dilation 1x1",
        "filter bf16 nhwc 2x8x4x16x16 8x1x3x3x3 pad 1x1x1 stride 1x2x2 dilation 1x1x2",
        "forward f64 nchw 1x1x1x9223372036854775807 1x1x1x1 pad 0x0 stride 1x1 dilation 1x1",
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct cudnn_call call = call_of(lines[i]);
        char text[CUDNN_LINE_MAX];

        assert_int_equal(cudnn_call_write(&call, text), strlen(lines[i]));
        assert_string_equal(text, lines[i]);
    }
}

static void what_is_no_call_is_not_read(void **state)
{
    static const char *const lines[] = {
        "",
        "forward",
        "sideways f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1",
        "forward f8 nhwc 8x16x10x12 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1",
        "forward f16 nhwc 8x16x10 32x4x3 pad 1 stride 2 dilation 1",
        "forward f16 nhwc 8x16x10x12 32x4x3 pad 1x2 stride 2x1 dilation 1x1",
        "forward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1 more",
        "forward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 stride 2x0 dilation 1x1",
        "forward f16 nhwc 0x16x10x12 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1",
        "forward f16 nhwc 8x16x10x-2 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1",
        "forward f16 nhwc 8x16x10x9223372036854775808 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1",
        "forward f16 nhwc 8x16x2x2x2x2 32x4x3x5x1x1 pad 1x2 stride 2x1 dilation 1x1",
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct cudnn_call call;

        assert_false(cudnn_call_read(lines[i], &call));
    }
}

static void plans_that_would_fail_too_are_not_there(void **state)
{
    struct cudnn_workspaces w;

    assert_true(cudnn_workspaces_read(" 20 10 0", &w));
    assert_int_equal(w.count, 3);
    assert_true(cudnn_workspaces_read(" 4391424 11996399 1048576 4390928 10485760 0", &w));
    assert_int_equal(w.count, 6);
    assert_false(cudnn_workspaces_read(" 4391424 10485759", &w));
    assert_false(cudnn_workspaces_read(" 10485760 4391424 10485760", &w));
    assert_false(cudnn_workspaces_read(" 0 4391424", &w));
    assert_false(cudnn_workspaces_read("", &w));
    assert_false(cudnn_workspaces_read(" 10 10", &w));
    assert_false(cudnn_workspaces_read(" 10 x", &w));
    assert_false(cudnn_workspaces_read(" 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2", &w));
}

static void many_plans_keep_the_least(void **state)
{
    struct cudnn_workspaces w = { 0 };

    for (plm_bytes i = 0; i < 40; i++)
        cudnn_workspaces_add(&w, 100 - i);
    cudnn_workspaces_add(&w, 90);
    assert_int_equal(w.count, CUDNN_PLANS_MOST);
    assert_int_equal(w.bytes[CUDNN_PLANS_MOST - 1], 61);
}

static void an_output_has_the_size_that_a_convolution_gives_it(void **state)
{
    struct cudnn_call call =
        call_of("forward f32 nchw 1x1x7x9 1x1x3x3 pad 1x0 stride 2x1 dilation 1x4");

    assert_int_equal(cudnn_output_size(&call, 0), 4);
    assert_int_equal(cudnn_output_size(&call, 1), 1);
    call.input[3] = 8;
    assert_int_equal(cudnn_output_size(&call, 1), 0);
}

/* ------------------------------------------------------------------ files */

/* folder_new() - an empty folder; the test removes what it put there, by remove_all() */
static char *folder_new(char name[32])
{
    snprintf(name, 32, "/tmp/test-cudnn-XXXXXX");
    assert_non_null(mkdtemp(name));
    return name;
}

static void remove_all(const char *folder)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ------------------------------------------------------------------ the GPU that is here */

static char driver[32]; /* the folder of the double of CUDA's driver */

/* install_driver() - with one GPU, which is none that tests ask for but @here */
static int install_driver(void **state)
{
    char path[64], text[128];

    folder_new(driver);
    snprintf(text, sizeof text, "state %s/state\ncapability 90\nprocessors 132\n", driver);
    write_file(driver, "settings", text);
    snprintf(path, sizeof path, "%s/settings", driver);
    return setenv("PLM_DOUBLE", path, 1);
}

static int remove_driver(void **state)
{
    remove_all(driver);
    return 0;
}

static const struct cudnn_gpu here = { 90, 132, 2048 };

/* ------------------------------------------------------------------ the process */

static enum cudnn_reply ask(struct cudnn_process *process,
                            const char *text,
                            struct cudnn_workspaces *ret)
{
    struct cudnn_call call = call_of(text);

    return cudnn_process_ask(process, &gpu, &call, ret);
}

static void plans_come_in_the_order_in_which_pytorch_tries_them(void **state)
{
    struct cudnn_process process;
    struct cudnn_workspaces w;

    settle("900 d800 950 ! 700", "500 600 0 50", NULL);
    assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
    assert_int_equal(cudnn_process_version(&process), 92600);
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_PLANS);
    assert_plans(&w, " 900 700 500 0");
    cudnn_process_stop(&process);
}

static void tensors_arrive_as_they_are(void **state)
{
    /* x 8*16*10*12, y 8*32*5*12, w 32*4*3*5; channels are next to each other; 32-byte alignment */
    static const char *const expected[][2] = {
        { "X Y W A S", " 15360 1920 32 1" },
        { "Y W", " 15360 1920 0" },
    };
    struct cudnn_process process;
    struct cudnn_workspaces w;

    for (size_t i = 0; i < 2; i++) {
        settle(expected[i][0], NULL, NULL);
        assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
        assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_PLANS);
        assert_plans(&w, i == 0 ? " 15360 1920 32 1 0" : expected[i][1]);
        assert_int_equal(
            ask(&process, "data f16 nchw 2x16x10x12 32x4x3x5 pad 1x2 stride 2x1 dilation 1x1", &w),
            CUDNN_REPLY_PLANS);
        assert_plans(&w, i == 0 ? " 3840 1920 32 0" : " 3840 1920 0");
        cudnn_process_stop(&process);
    }
}

static void a_plan_of_cublaslt_is_taken_to_need_nothing_more(void **state)
{
    /* the plans that are listed, the limit, and what is answered */
    static const char *const cases[][3] = {
        { "b100 50 0", "4194304", " 100 50 0 blas 4194305" },
        { "b0 50 0", "0", " 0 blas 1" },
        { "50 b100 0", "4194304", " 50 0" },
        { "100 50 0", "4194304", " 100 50 0" },
    };
    struct cudnn_process process;
    struct cudnn_workspaces w;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        settle(cases[i][0], NULL, NULL);
        setenv("PLM_DOUBLE_CUDNN_LIMIT", cases[i][1], 1);
        assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
        assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_PLANS);
        assert_plans(&w, cases[i][2]);
        assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_PLANS);
        assert_plans(&w, cases[i][2]);
        cudnn_process_stop(&process);
    }
    unsetenv("PLM_DOUBLE_CUDNN_LIMIT");
}

static void without_a_stand_in_the_answer_says_so(void **state)
{
    static const char *const folders[] = { NULL, "/nonexistent" };
    struct cudnn_process process;
    struct cudnn_workspaces w;

    settle("b100 50 0", NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        assert_true(cudnn_process_start(&process, TEST_CUDNN, folders[i], 10));
        assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_PLANS);
        assert_int_equal(w.blas, CUDNN_BLAS_LEFT_OUT);
        cudnn_process_stop(&process);
    }
}

static void the_gpu_that_is_here_has_its_own_cublaslt(void **state)
{
    struct cudnn_process process;
    struct cudnn_workspaces w;
    struct cudnn_call call = call_of(line);

    settle("b100 50 0", NULL, NULL);
    assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
    assert_int_equal(cudnn_process_ask(&process, &here, &call, &w), CUDNN_REPLY_PLANS);
    assert_plans(&w, " 1100 50 0");
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_PLANS); /* another GPU */
    assert_plans(&w, " 100 50 0 blas 4194305");
    assert_int_equal(cudnn_process_ask(&process, &here, &call, &w), CUDNN_REPLY_PLANS);
    assert_plans(&w, " 100 50 0 blas 4194305");
    cudnn_process_stop(&process);
}

static void a_device_that_is_refused_has_no_plans(void **state)
{
    struct cudnn_process process;
    struct cudnn_workspaces w;
    struct cudnn_call call = call_of(line);

    settle(NULL, NULL, "refuse-device");
    assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_REFUSED);
    assert_string_equal(process.message, "cudnnStatus_t 3000 the double was told to refuse");
    assert_int_equal(cudnn_process_ask(&process, &(struct cudnn_gpu){ 61, 20, 2048 }, &call, &w),
                     CUDNN_REPLY_REFUSED);
    assert_string_equal(process.message, "compute capability 6.1 is not known");
    cudnn_process_stop(&process);
}

static void a_call_without_plans_is_refused_and_the_next_is_answered(void **state)
{
    static const char *const doings[] = { "refuse-graph", "no-plans" };
    struct cudnn_process process;
    struct cudnn_workspaces w;

    for (size_t i = 0; i < 2; i++) {
        settle(NULL, NULL, doings[i]);
        assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
        assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_REFUSED);
        assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_REFUSED);
        cudnn_process_stop(&process);
    }
}

static void a_library_that_hangs_is_given_up(void **state)
{
    struct cudnn_process process;
    struct cudnn_workspaces w;

    settle(NULL, NULL, "hang");
    assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 0.2));
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_GONE);
    assert_string_equal(process.message, "it did not answer within 0.2 s");
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_GONE);
    assert_int_equal(process.pid, 0);
}

static void a_library_that_ends_the_process_is_given_up(void **state)
{
    struct cudnn_process process;
    struct cudnn_workspaces w;

    settle(NULL, NULL, "crash");
    assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_GONE);
    assert_non_null(strstr(process.message, "its process ended by signal 11"));
    settle(NULL, NULL, "exit");
    assert_true(cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10));
    assert_int_equal(ask(&process, line, &w), CUDNN_REPLY_GONE);
    assert_string_equal(process.message, "its process ended");
}

static void what_a_library_prints_goes_nowhere(void **state)
{
    struct cudnn_process process;
    struct cudnn_workspaces w;
    char name[] = "/tmp/test-cudnn-XXXXXX", text[64];
    int file = mkstemp(name), out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);

    assert_true(file >= 0);
    settle("64 0", NULL, "print");
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    bool started = cudnn_process_start(&process, TEST_CUDNN, TEST_STAND_INS, 10);
    enum cudnn_reply reply = ask(&process, line, &w);

    cudnn_process_stop(&process);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    assert_true(started);
    assert_int_equal(reply, CUDNN_REPLY_PLANS);
    assert_int_equal(pread(file, text, sizeof text, 0), 0);
    close(file);
    close(out);
    close(err);
    unlink(name);
}

static void what_is_no_libcudnn_is_not_asked(void **state)
{
    struct cudnn_process process;

    assert_true(cudnn_process_start(&process, "/nonexistent/libcudnn.so.9", TEST_STAND_INS, 10));
    assert_int_equal(cudnn_process_version(&process), 0);
    assert_ptr_equal(strstr(process.message, "cannot open shared object file"), process.message);
    assert_true(cudnn_process_start(&process, TEST_NO_CUDNN, TEST_STAND_INS, 10));
    assert_int_equal(cudnn_process_version(&process), 0);
    assert_string_equal(process.message, "it lacks functions of the backend API of cuDNN 9");
}

/* ------------------------------------------------------------------ who answers */

static enum cudnn_source ask_once(
    const char *library, bool chosen, const char *cache, const char *tables, char *ret_text)
{
    struct cudnn *cudnn = cudnn_create();
    struct cudnn_workspaces w = { 0 };
    struct cudnn_call call = call_of(line);

    if (library)
        cudnn_add_library(cudnn, library, chosen);
    if (tables)
        cudnn_add_tables(cudnn, tables);
    cudnn_set_cache(cudnn, cache);
    cudnn_set_stand_ins(cudnn, TEST_STAND_INS);
    cudnn_set_patience(cudnn, 5);
    enum cudnn_source source = cudnn_ask(cudnn_open(cudnn, 92600, &gpu), &call, &w);

    cudnn_workspaces_write(&w, ret_text);
    cudnn_destroy(cudnn);
    return source;
}

static void answers_are_kept_between_runs(void **state)
{
    char folder[32], text[CUDNN_LINE_MAX];

    folder_new(folder);
    settle("640 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0");
    settle("320 0", NULL, "crash"); /* nobody asks it again */
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0");
    remove_all(folder);
}

static void a_cache_that_is_damaged_is_thrown_away(void **state)
{
    static const char *const damaged[] = {
        "",
        "something else\n",
        "plimsoll: workspaces of cuDNN, format 6\nforward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 "
        "stride 2x1 dilation 1x1 = 1 2\n",
        "plimsoll: workspaces of cuDNN, format 6\nforward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x",
        "plimsoll: workspaces of cuDNN, format 7\nforward f16 nhwc 8x16x10x12 32x4x3x5 pad 1x2 "
        "stride 2x1 dilation 1x1 = 1 0\n",
    };
    char folder[32], text[CUDNN_LINE_MAX];

    settle("640 0", NULL, NULL);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        folder_new(folder);
        write_file(folder, "cudnn-92600-sm80-108-2048.txt", damaged[i]);
        assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
        assert_string_equal(text, " 640 0");
        settle("320 0", NULL, NULL);
        assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
        assert_string_equal(text, " 640 0");
        settle("640 0", NULL, NULL);
        remove_all(folder);
    }
}

static void a_pipe_in_place_of_a_cache_is_not_waited_for(void **state)
{
    static const char *const names[] = { "cudnn-92600-sm80-108-2048.txt", "cudnn-libraries.txt" };
    char folder[32], path[96], text[CUDNN_LINE_MAX];

    settle("640 0", NULL, NULL);
    folder_new(folder);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(mkfifo(path, 0600), 0);
    }
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0");
    remove_all(folder);
}

static void an_answer_that_was_edited_is_not_believed(void **state)
{
    char folder[32], name[64], text[CUDNN_LINE_MAX], expected[256], kept[1024] = "";

    folder_new(folder);
    snprintf(name, sizeof name, "%s/cudnn-92600-sm80-108-2048.txt", folder);
    settle("640 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    int file = open(name, O_RDONLY);

    assert_true(read(file, kept, sizeof kept - 1) > 0);
    close(file);
    *strstr(kept, "640 0") = '9';
    write_file(folder, "cudnn-92600-sm80-108-2048.txt", kept);

    struct cudnn *cudnn = cudnn_create();

    cudnn_add_library(cudnn, TEST_CUDNN, false);
    cudnn_set_cache(cudnn, folder);
    snprintf(
        expected, sizeof expected,
        "%s:2: this is not what was written; the file is thrown away, and cuDNN is asked again",
        name);
    assert_string_equal(cudnn_complaint(cudnn_open(cudnn, 92600, &gpu)), expected);
    cudnn_destroy(cudnn);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0");
    remove_all(folder);
}

static void each_device_is_asked_in_a_process_of_its_own(void **state)
{
    static const struct cudnn_gpu other = { .cc = 75, .sm_count = 40, .threads_per_sm = 1024 };
    struct cudnn *cudnn = cudnn_create();
    struct cudnn_workspaces w = { 0 };
    struct cudnn_call call = call_of(line), next = call;

    next.input[0] *= 2;
    settle("640 0", NULL, "one-device");
    cudnn_add_library(cudnn, TEST_CUDNN, false);
    cudnn_set_stand_ins(cudnn, TEST_STAND_INS);
    struct cudnn_planner *a = cudnn_open(cudnn, 92600, &gpu);
    struct cudnn_planner *b = cudnn_open(cudnn, 92600, &other);

    assert_int_equal(cudnn_ask(a, &call, &w), CUDNN_LIBRARY);
    assert_int_equal(cudnn_ask(b, &call, &w), CUDNN_LIBRARY);
    assert_int_equal(cudnn_ask(a, &next, &w), CUDNN_LIBRARY);
    assert_int_equal(cudnn_ask(b, &next, &w), CUDNN_LIBRARY);
    cudnn_destroy(cudnn);
}

static void another_version_has_another_cache(void **state)
{
    char folder[32], text[CUDNN_LINE_MAX];

    folder_new(folder);
    settle("640 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    write_file(folder, "cudnn-libraries.txt", ""); /* its version is asked again */
    settle("320 0", NULL, NULL);
    setenv("PLM_DOUBLE_CUDNN_VERSION", "92700", 1);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 320 0");
    remove_all(folder);
}

static void a_version_that_was_edited_is_asked_again(void **state)
{
    char folder[32], path[64], versions[1024] = "", text[CUDNN_LINE_MAX];

    folder_new(folder);
    settle("640 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    snprintf(path, sizeof path, "%s/cudnn-libraries.txt", folder);
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_true(fread(versions, 1, sizeof versions - 1, file) > 0);
    fclose(file);
    char *version = strstr(versions, " = 92600 #");

    assert_non_null(version);
    memcpy(version, " = 92700", 8);
    write_file(folder, "cudnn-libraries.txt", versions);
    settle("320 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, folder, NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0"); /* the cache of the version that it has */
    remove_all(folder);
}

static void no_place_for_a_cache_is_no_error(void **state)
{
    char text[CUDNN_LINE_MAX];

    settle("640 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, "/proc/nothing/here", NULL, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0");
}

static const char table[] = "plimsoll: 1\n"
                            "cudnn: 9.26\n"
                            "compute_capability: 8.0\n"
                            "source: a test\n"
                            "calls: |\n"
                            "  forward f16+bf16 nhwc *x16x10x12 32x4x3x5 pad 1x2 stride 2x1 "
                            "dilation 1x1 = 8: 77 0; 16: 154 0\n";

static void the_framework_s_library_comes_before_the_table_and_another_after_it(void **state)
{
    char folder[32], text[CUDNN_LINE_MAX];

    folder_new(folder);
    write_file(folder, "9.26-sm80.yaml", table);
    settle("640 0", NULL, NULL);
    assert_int_equal(ask_once(TEST_CUDNN, false, NULL, folder, text), CUDNN_LIBRARY);
    assert_string_equal(text, " 640 0");
    setenv("PLM_DOUBLE_CUDNN_VERSION", "91900", 1);
    assert_int_equal(ask_once(TEST_CUDNN, false, NULL, folder, text), CUDNN_TABLE);
    assert_string_equal(text, " 77 0");
    assert_int_equal(ask_once(TEST_CUDNN, true, NULL, folder, text), CUDNN_LIBRARY);
    assert_int_equal(ask_once(NULL, false, NULL, folder, text), CUDNN_TABLE);
    assert_int_equal(ask_once(NULL, false, NULL, NULL, text), CUDNN_UNKNOWN);
    remove_all(folder);
}

static void what_makes_the_table_asks_any_library_first(void **state)
{
    struct cudnn *cudnn = cudnn_create();
    struct cudnn_workspaces w = { 0 };
    struct cudnn_call call = call_of(line);
    struct plm_error error;
    char folder[32];
    size_t count = 0;

    folder_new(folder);
    write_file(folder, "9.26-sm80.yaml", table);
    settle("640 0", NULL, NULL);
    setenv("PLM_DOUBLE_CUDNN_VERSION", "91900", 1);
    cudnn_add_library(cudnn, TEST_CUDNN, false);
    cudnn_add_tables(cudnn, folder);
    cudnn_set_stand_ins(cudnn, TEST_STAND_INS);
    cudnn_set_patience(cudnn, 5);
    cudnn_record(cudnn);
    assert_int_equal(cudnn_ask(cudnn_open(cudnn, 92600, &gpu), &call, &w), CUDNN_LIBRARY);
    assert_int_equal(cudnn_write_tables(cudnn, folder, "a test", &count, &error), PLM_OK);
    assert_int_equal(count, 1);
    cudnn_destroy(cudnn);
    remove_all(folder);
}

static void a_library_that_fails_leaves_the_table(void **state)
{
    char folder[32], text[CUDNN_LINE_MAX];

    folder_new(folder);
    write_file(folder, "9.26-sm80.yaml", table);
    settle(NULL, NULL, "crash");
    assert_int_equal(ask_once(TEST_CUDNN, false, NULL, folder, text), CUDNN_TABLE);
    settle(NULL, NULL, NULL);
    setenv("PLM_DOUBLE_CUDNN_VERSION", "90100", 1);
    assert_int_equal(ask_once(TEST_CUDNN, true, NULL, folder, text), CUDNN_TABLE);
    assert_int_equal(ask_once(TEST_NO_CUDNN, true, NULL, folder, text), CUDNN_TABLE);
    remove_all(folder);
}

static void a_chosen_library_that_cannot_be_asked_says_why(void **state)
{
    struct cudnn *cudnn = cudnn_create();

    settle(NULL, NULL, NULL);
    setenv("PLM_DOUBLE_CUDNN_VERSION", "90100", 1);
    cudnn_add_library(cudnn, TEST_CUDNN, true);
    struct cudnn_planner *planner = cudnn_open(cudnn, 92600, &gpu);

    assert_non_null(cudnn_refusal(planner));
    assert_non_null(strstr(cudnn_refusal(planner),
                           ": cuDNN 9.1.0 does not plan without a GPU; 9.8 and later do"));
    assert_int_equal(cudnn_library_version(planner), 0);
    cudnn_destroy(cudnn);
}

static void of_several_libraries_the_one_of_the_version_is_asked(void **state)
{
    struct cudnn *cudnn = cudnn_create();

    settle(NULL, NULL, NULL);
    cudnn_add_library(cudnn, TEST_NO_CUDNN, false);
    cudnn_add_library(cudnn, TEST_CUDNN, false);
    cudnn_prepare(cudnn);
    assert_int_equal(cudnn_library_version(cudnn_open(cudnn, 92600, &gpu)), 92600);
    assert_int_equal(cudnn_library_version(cudnn_open(cudnn, 91900, &gpu)), 92600);
    assert_ptr_equal(cudnn_open(cudnn, 92600, &gpu), cudnn_open(cudnn, 92600, &gpu));
    cudnn_destroy(cudnn);
}

/* ------------------------------------------------------------------ tables */

static void a_table_with_a_mistake_names_the_line(void **state)
{
    static const struct {
        const char *from, *to, *message;
        unsigned line;
    } mistakes[] = {
        { "plimsoll: 1", "plimsoll: 2", "'plimsoll' must be 1, the version of the format", 1 },
        { "9.26", "nine", "'cudnn' must be like 9.26, not 'nine'", 2 },
        { "8.0", "8", "'compute_capability' must be like 8.6, not '8'", 3 },
        { "forward", "backward", "a call and its workspaces were expected", 6 },
        { " = 8: 77 0; 16: 154 0", "", "a call and its workspaces were expected", 6 },
        { "8: 77 0;", "8: 77 77;", "a call and its workspaces were expected", 6 },
        { "; 16", ";; 16", "a call and its workspaces were expected", 6 },
        { "+bf16", "+f8", "a call and its workspaces were expected", 6 },
        { "*x16", "*y16", "a call and its workspaces were expected", 6 },
    };
    struct arena arena = { 0 };
    char folder[32], text[sizeof table + 16], path[64];

    folder_new(folder);
    snprintf(path, sizeof path, "%s/t.yaml", folder);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const char *at = strstr(table, mistakes[i].from);
        struct cudnn_table read;
        struct plm_error error;
        int cc;

        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - table), table, mistakes[i].to,
                 at + strlen(mistakes[i].from));
        write_file(folder, "t.yaml", text);
        assert_int_equal(cudnn_table_load(path, &arena, &read, &cc, &error), PLM_E_SYNTAX);
        assert_non_null(strstr(error.message, mistakes[i].message));
        assert_int_equal(error.line, mistakes[i].line);
    }
    remove_all(folder);
    arena_finish(&arena);
}

static void a_table_is_written_as_it_is_read(void **state)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena };
    struct cudnn_table read;
    struct plm_error error;
    char folder[32], path[64];
    int cc;

    folder_new(folder);
    write_file(folder, "t.yaml", table);
    snprintf(path, sizeof path, "%s/t.yaml", folder);
    assert_int_equal(cudnn_table_load(path, &arena, &read, &cc, &error), PLM_OK);
    cudnn_table_write(&read, cc, "a test", &out);
    assert_non_null(strstr(buf_string(&out), "source: \"a test\"\n"));
    write_file(folder, "t.yaml", buf_string(&out));
    assert_int_equal(cudnn_table_load(path, &arena, &read, &cc, &error), PLM_OK);
    assert_int_equal(read.answers.count, 4);
    assert_non_null(strstr(buf_string(&out), strstr(table, "  forward")));
    assert_int_equal(read.version, 92600);
    assert_int_equal(cc, 80);
    remove_all(folder);
    arena_finish(&arena);
}

static void the_table_of_the_nearest_version_is_taken(void **state)
{
    const char *folders[1];
    struct arena arena = { 0 };
    struct cudnn_table read = { 0 };
    struct plm_error error;
    char folder[32], text[sizeof table];

    folders[0] = folder_new(folder);
    write_file(folder, "9.26-sm80.yaml", table);
    memcpy(text, table, sizeof table);
    memcpy(strstr(text, "9.26"), "9.19", 4);
    write_file(folder, "9.19-sm80.yaml", text);
    write_file(folder, "9.20-sm90.yaml", "of another device, and no table");
    assert_int_equal(cudnn_table_find(folders, 1, 92000, 80, &arena, &read, &error), PLM_OK);
    assert_int_equal(read.version, 91900);
    assert_int_equal(cudnn_table_find(folders, 1, 92601, 80, &arena, &read, &error), PLM_OK);
    assert_int_equal(read.version, 92600);
    read.version = 0;
    assert_int_equal(cudnn_table_find(folders, 1, 92600, 86, &arena, &read, &error), PLM_OK);
    assert_int_equal(read.version, 0);
    write_file(folder, "9.30-sm80.yaml", text);
    assert_int_equal(cudnn_table_find(folders, 1, 93000, 80, &arena, &read, &error), PLM_E_SYNTAX);
    remove_all(folder);
    arena_finish(&arena);
}

/* ------------------------------------------------------------------ in an estimate */

/* struct made - an estimate, and what it came from */
struct made {
    struct plm_context *context;
    struct plm_model *model;
    struct plm_estimate *estimate;
};

/* make() - an estimate of resnet18 under the double's settings */
static struct made make_with(const struct plm_strategy *strategy, const char *stand_ins)
{
    struct made made = { .context = plm_context_create() };
    struct plm_error error;

    plm_context_add_models(made.context, TEST_SOURCE "/models");
    plm_context_add_cudnn(made.context, TEST_CUDNN, true);
    plm_context_set_cudnn_stand_ins(made.context, stand_ins);
    if (plm_model_load(made.context, "resnet18", &made.model, &error) != PLM_OK ||
        plm_estimate(made.model, strategy, &made.estimate, &error) != PLM_OK)
        fail_msg("%s", error.message);
    return made;
}

static struct made make(const struct plm_strategy *strategy)
{
    return make_with(strategy, TEST_STAND_INS);
}

static void unmake(struct made *made)
{
    plm_estimate_destroy(made->estimate);
    plm_model_destroy(made->model);
    plm_context_destroy(made->context);
}

static void an_estimate_has_the_workspaces_that_were_planned(void **state)
{
    struct plm_strategy strategy = { .batch = 2, .assume_ghostgpu = true };
    plm_bytes reserved[2];

    for (int i = 0; i < 2; i++) {
        settle(i == 0 ? "0" : "1073741824 0", NULL, NULL);
        struct made made = make(&strategy);
        const struct plm_result *r = plm_estimate_result(made.estimate);

        assert_int_equal(r->cudnn.library, 92600);
        assert_true(r->cudnn.asked > 0);
        assert_int_equal(r->cudnn.unknown, 0);
        assert_false(r->workspace_unknown);
        assert_int_equal(r->workspace_high, 0);
        assert_int_equal(r->warning_count, 0);
        reserved[i] = r->peak.reserved;
        unmake(&made);
    }
    assert_true(reserved[1] >= reserved[0] + 1073741824);
}

static void an_estimate_says_what_rests_on_the_stand_in(void **state)
{
    struct plm_strategy strategy = { .batch = 2, .assume_ghostgpu = true };

    settle("b0 0", NULL, NULL);
    struct made made = make(&strategy);
    const struct plm_result *r = plm_estimate_result(made.estimate);

    assert_true(r->cudnn.blas == r->cudnn.asked && r->cudnn.asked > 0);
    assert_int_equal(r->cudnn.blas_most, 4194305);
    assert_int_equal(r->cudnn.left_out, 0);
    assert_int_equal(r->warning_count, 0);
    unmake(&made);

    made = make_with(&strategy, "/nonexistent");
    r = plm_estimate_result(made.estimate);
    assert_int_equal(r->cudnn.blas, 0);
    assert_true(r->cudnn.left_out == r->cudnn.asked && r->cudnn.asked > 0);
    assert_int_equal(r->warning_count, 1);
    assert_ptr_equal(strstr(r->warnings[0], "nothing stands in for cuBLASLt: cuDNN answered "),
                     r->warnings[0]);
    unmake(&made);
}

static void a_plan_with_less_is_taken_when_memory_is_short(void **state)
{
    struct plm_strategy strategy = { .batch = 2,
                                     .assume_ghostgpu = true,
                                     .capacity = UINT64_C(1) << 30 };

    settle("1073741824 X", NULL, NULL);
    struct made made = make(&strategy);
    const struct plm_result *r = plm_estimate_result(made.estimate);

    assert_int_equal(r->fits, 1);
    assert_true(r->fallbacks > 0 && r->fallbacks < r->cudnn.asked); /* once for each call */
    unmake(&made);
}

static void an_estimate_goes_on_without_a_library_that_fails(void **state)
{
    struct plm_strategy strategy = { .batch = 2 };

    settle(NULL, NULL, "crash");
    struct made made = make(&strategy);
    const struct plm_result *r = plm_estimate_result(made.estimate);

    assert_int_equal(r->cudnn.library, 0);
    assert_true(r->cudnn.unknown > 0);
    assert_true(r->workspace_unknown && r->workspace_high > 0);
    assert_int_equal(r->warning_count, 1);
    assert_non_null(strstr(r->warnings[0], "its process ended by signal 11"));
    unmake(&made);
}

static void another_version_than_the_framework_s_is_warned_of(void **state)
{
    struct plm_strategy strategy = { .batch = 2, .framework = "pytorch-2.11" };

    settle(NULL, NULL, NULL);
    struct made made = make(&strategy);
    const struct plm_result *r = plm_estimate_result(made.estimate);

    assert_int_equal(r->warning_count, 1);
    assert_string_equal(r->warnings[0], "workspaces are those of cuDNN 9.26; this framework brings "
                                        "9.19, which may choose otherwise");
    unmake(&made);
}

static void attention_on_a_b200_is_known_where_sequences_are_long(void **state)
{
    struct plm_context *context = plm_context_create();
    const struct plm_device *device;
    struct plm_model *model;
    struct plm_error error;

    plm_context_add_models(context, TEST_SOURCE "/models");
    plm_context_add_devices(context, TEST_SOURCE "/calib/devices");
    assert_int_equal(plm_device_find(context, "b200", &device, &error), PLM_OK);
    assert_int_equal(plm_model_load(context, "llama-3.2-1b", &model, &error), PLM_OK);
    for (int64_t seq = 64; seq <= 512; seq += 448) {
        struct plm_strategy strategy = {
            .batch = 1, .seq = seq, .precision = PLM_PRECISION_BF16, .device = device
        };
        struct plm_estimate *made;

        assert_int_equal(plm_estimate(model, &strategy, &made, &error), PLM_OK);
        assert_int_equal(plm_estimate_result(made)->workspace_unknown, seq == 64);
        assert_int_equal(plm_estimate_result(made)->workspace_high > 0, seq == 64);
        plm_estimate_destroy(made);
    }
    plm_model_destroy(model);
    plm_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_call_is_not_read),
        cmocka_unit_test(plans_that_would_fail_too_are_not_there),
        cmocka_unit_test(many_plans_keep_the_least),
        cmocka_unit_test(an_output_has_the_size_that_a_convolution_gives_it),
        cmocka_unit_test(plans_come_in_the_order_in_which_pytorch_tries_them),
        cmocka_unit_test(tensors_arrive_as_they_are),
        cmocka_unit_test(a_plan_of_cublaslt_is_taken_to_need_nothing_more),
        cmocka_unit_test(without_a_stand_in_the_answer_says_so),
        cmocka_unit_test(the_gpu_that_is_here_has_its_own_cublaslt),
        cmocka_unit_test(a_device_that_is_refused_has_no_plans),
        cmocka_unit_test(a_call_without_plans_is_refused_and_the_next_is_answered),
        cmocka_unit_test(a_library_that_hangs_is_given_up),
        cmocka_unit_test(a_library_that_ends_the_process_is_given_up),
        cmocka_unit_test(what_a_library_prints_goes_nowhere),
        cmocka_unit_test(what_is_no_libcudnn_is_not_asked),
        cmocka_unit_test(answers_are_kept_between_runs),
        cmocka_unit_test(a_cache_that_is_damaged_is_thrown_away),
        cmocka_unit_test(a_pipe_in_place_of_a_cache_is_not_waited_for),
        cmocka_unit_test(an_answer_that_was_edited_is_not_believed),
        cmocka_unit_test(each_device_is_asked_in_a_process_of_its_own),
        cmocka_unit_test(another_version_has_another_cache),
        cmocka_unit_test(a_version_that_was_edited_is_asked_again),
        cmocka_unit_test(no_place_for_a_cache_is_no_error),
        cmocka_unit_test(the_framework_s_library_comes_before_the_table_and_another_after_it),
        cmocka_unit_test(what_makes_the_table_asks_any_library_first),
        cmocka_unit_test(a_library_that_fails_leaves_the_table),
        cmocka_unit_test(a_chosen_library_that_cannot_be_asked_says_why),
        cmocka_unit_test(of_several_libraries_the_one_of_the_version_is_asked),
        cmocka_unit_test(a_table_with_a_mistake_names_the_line),
        cmocka_unit_test(a_table_is_written_as_it_is_read),
        cmocka_unit_test(the_table_of_the_nearest_version_is_taken),
        cmocka_unit_test(an_estimate_has_the_workspaces_that_were_planned),
        cmocka_unit_test(an_estimate_says_what_rests_on_the_stand_in),
        cmocka_unit_test(a_plan_with_less_is_taken_when_memory_is_short),
        cmocka_unit_test(an_estimate_goes_on_without_a_library_that_fails),
        cmocka_unit_test(another_version_than_the_framework_s_is_warned_of),
        cmocka_unit_test(attention_on_a_b200_is_known_where_sequences_are_long),
    };

    return cmocka_run_group_tests(tests, install_driver, remove_driver);
}
