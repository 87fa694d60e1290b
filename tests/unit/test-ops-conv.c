/*
 * test-ops-conv.c - convolutions, against recordings of PyTorch 2.15
 *
 * ops-conv.def and ops-conv-slow.def are written by tests/support/record.py, where cuDNN takes no workspace; that rule is
 * tested by hand.
 */
#include "support/program.h"

static struct program_result run_with(struct test_ghost *t,
                                      enum workspace_mode mode,
                                      bool ghostgpu,
                                      const char *program)
{
    test_ghost_start(t);
    t->ghost.around.workspace_mode = mode;
    t->ghost.around.workspace_bytes = 4096;
    t->ghost.around.ghostgpu = ghostgpu;
    return program_run(t, program);
}

static const char conv_program[] =
    "x: leaf float32 8,64,56,56; y: conv2d x channels=32 kernel=3 padding=1";
static const char norm_program[] = "x: leaf float32 8,64,56,56; y: batch_norm2d x";

static void each_call_of_cudnn_takes_the_workspace_that_is_given(void **state)
{
    struct test_ghost t;
    struct program_result r = run_with(&t, WORKSPACE_BYTES, true, conv_program);

    (void)state;
    assert_string_equal(r.forward, "+3211264 +4096 -4096");
    assert_string_equal(r.backward, "+6422528 +4096 -4096 +73728 +4096 -4096 +128");
    assert_false(t.ghost.unknown_workspaces);
    test_ghost_finish(&t);
}

static void an_unknown_workspace_is_said_to_be_unknown(void **state)
{
    struct test_ghost t;
    struct program_result r = run_with(&t, WORKSPACE_AUTO, true, conv_program);

    (void)state;
    assert_string_equal(r.forward, "+3211264");
    assert_true(t.ghost.unknown_workspaces);
    test_ghost_finish(&t);
}

static void a_depthwise_kernel_needs_no_cudnn(void **state)
{
    struct test_ghost t;
    struct program_result r =
        run_with(&t, WORKSPACE_AUTO, true,
                 "x: leaf float32 8,64,56,56; y: conv2d x channels=64 kernel=3 groups=64");

    (void)state;
    assert_string_not_equal(r.forward, "error");
    assert_false(t.ghost.unknown_workspaces);
    test_ghost_finish(&t);
}

static void batch_norm_on_a_gpu_has_a_workspace_too(void **state)
{
    struct test_ghost t;
    struct program_result r = run_with(&t, WORKSPACE_BYTES, false, norm_program);

    (void)state;
    assert_string_equal(r.forward, "+6422528 +256 +256 +4096 -4096");
    assert_string_equal(r.backward, "+6422528 +256 +256 +4096 -4096 -256 -256");
    test_ghost_finish(&t);
    run_with(&t, WORKSPACE_AUTO, false, norm_program);
    assert_true(t.ghost.unknown_workspaces);
    test_ghost_finish(&t);
    run_with(&t, WORKSPACE_AUTO, true, norm_program);
    assert_false(t.ghost.unknown_workspaces);
    test_ghost_finish(&t);
}

static void errors_say_what_was_expected(void **state)
{
    struct test_ghost t;

    (void)state;
    test_ghost_start(&t);
    program_run(&t, "x: leaf float32 8,64,56,56; y: conv2d x channels=32 kernel=3 groups=3");
    assert_string_equal(t.ghost.error.message,
                        "conv2d: 'groups' is 3; it must divide the input's 64 and the output's 32 "
                        "channels");
    test_ghost_finish(&t);
    test_ghost_start(&t);
    program_run(&t, "x: leaf float32 2,3,4,4; y: conv2d x channels=8 kernel=7 padding=1");
    assert_string_equal(
        t.ghost.error.message,
        "conv2d: the input [2, 3, 4, 4] is too small for a kernel of 7 with padding 1");
    test_ghost_finish(&t);
    test_ghost_start(&t);
    program_run(&t, "x: leaf float32 2,3,4,4; y: conv2d x channels=8 kernel=3 "
                    "padding=9223372036854775807");
    assert_string_equal(t.ghost.error.message, "conv2d: the output's size does not fit in 63 bits");
    test_ghost_finish(&t);
}

static const struct CMUnitTest tests[] = {
#define ROW(...) PROGRAM_ROW(__VA_ARGS__),
#include "ops-conv-slow.def"
#include "ops-conv.def"
#undef ROW
    cmocka_unit_test(each_call_of_cudnn_takes_the_workspace_that_is_given),
    cmocka_unit_test(an_unknown_workspace_is_said_to_be_unknown),
    cmocka_unit_test(a_depthwise_kernel_needs_no_cudnn),
    cmocka_unit_test(batch_norm_on_a_gpu_has_a_workspace_too),
    cmocka_unit_test(errors_say_what_was_expected),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
