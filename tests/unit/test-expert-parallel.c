/*
 * test-expert-parallel.c - the exchange of rows, what a rank keeps of the experts, and what is refused
 *
 * Whole runs are held against PyTorch and transformers in tests/reference/parallel.jsonl.
 */
#include <stdio.h>
#include <string.h>

#include "plan/simulate.h"
#include "support/ghost.h"
#include "support/test.h"
#include "yaml/file.h"

/* ------------------------------------------------------------------ operators */

static unsigned made(const struct ghost *g, enum category category, plm_bytes bytes)
{
    unsigned count = 0;

    for (size_t i = 1; i < g->record_count; i++)
        count += g->records[i].category == category && g->records[i].bytes == bytes;
    return count;
}

static void gradients_of_received_rows_go_back(void **state)
{
    enum { WIDTH = 16, SENT = 10, RECEIVED = 25 };
    struct test_ghost t;

    test_ghost_start(&t);
    TENSOR_AUTO *x = test_leaf(&t.ghost, DTYPE_FLOAT32, SENT, WIDTH);
    TENSOR_AUTO *y = test_op(&t.ghost, OP_ALL_TO_ALL, test_in(x), test_int(KEY_ROWS, RECEIVED));

    assert_int_equal(y->sizes[0], RECEIVED);
    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, 4 * RECEIVED * WIDTH), 1);
    TENSOR_AUTO *loss = test_op(&t.ghost, OP_SUM, test_in(y));

    autograd_backward(&t.ghost, loss, NULL);
    assert_non_null(x->grad);
    assert_int_equal(x->grad->sizes[0], SENT);
    tensor_drop(tensor_take(&loss));
    tensor_drop(tensor_take(&y));
    tensor_drop(tensor_take(&x));
    test_ghost_finish(&t);
}

/* of 11 rows three ranks have 4, 4 and 3; what comes back is as if there were 12 */
static void rows_of_ranks_are_padded_to_the_most(void **state)
{
    enum { WIDTH = 16, ALL = 11, PART = 4, RANKS = 3 };
    struct test_ghost t;

    test_ghost_start(&t);
    TENSOR_AUTO *x = test_leaf(&t.ghost, DTYPE_FLOAT32, ALL, WIDTH);
    struct tensor *part = NULL, *all = NULL;

    op_call(&t.ghost,
            &(struct op_args){ OP_SHARD_ROWS, 1, .out_count = 1, .in = &x, .ranks = RANKS }, &part);
    assert_int_equal(part->sizes[0], PART);
    op_call(&t.ghost,
            &(struct op_args){
                OP_GATHER_ROWS, 1, .out_count = 1, .in = &part,
                .attrs = &(struct attr){ .key = KEY_ROWS, .type = ATTR_INT, .value.i = ALL },
                .attr_count = 1, .ranks = RANKS },
            &all);
    assert_int_equal(all->sizes[0], ALL);
    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, 4 * PART * RANKS * WIDTH), 1);
    TENSOR_AUTO *loss = test_op(&t.ghost, OP_SUM, test_in(all));

    autograd_backward(&t.ghost, loss, NULL);
    assert_int_equal(x->grad->sizes[0], ALL);
    assert_int_equal(made(&t.ghost, CATEGORY_GRADIENT, 4 * PART * RANKS * WIDTH), 1);
    tensor_drop(tensor_take(&loss));
    tensor_drop(all);
    tensor_drop(part);
    tensor_drop(tensor_take(&x));
    test_ghost_finish(&t);
}

static void what_is_put_by_index_gets_its_rows_of_the_gradient(void **state)
{
    enum { WIDTH = 16, ROWS = 10 };
    struct test_ghost t;

    test_ghost_start(&t);
    TENSOR_AUTO *x = test_tensor(&t.ghost, DTYPE_FLOAT32, ROWS, WIDTH);
    TENSOR_AUTO *index = test_tensor(&t.ghost, DTYPE_INT64, ROWS);
    TENSOR_AUTO *values = test_leaf(&t.ghost, DTYPE_FLOAT32, ROWS, WIDTH);
    TENSOR_AUTO *y = test_op(&t.ghost, OP_INDEX_PUT, test_in(x, index, values));

    assert_ptr_equal(y, x); /* in place */
    assert_true(y->requires_grad);
    TENSOR_AUTO *loss = test_op(&t.ghost, OP_SUM, test_in(y));

    autograd_backward(&t.ghost, loss, NULL);
    assert_non_null(values->grad);
    assert_true(tensor_same_sizes(values->grad, values));
    tensor_drop(tensor_take(&loss));
    tensor_drop(tensor_take(&y));
    tensor_drop(tensor_take(&values));
    tensor_drop(tensor_take(&index));
    tensor_drop(tensor_take(&x));
    test_ghost_finish(&t);
}

/* ------------------------------------------------------------------ whole runs */

static const struct plm_setting small[] = {
    { "layers", "1" }, { "width", "64" },  { "heads", "4" },   { "kv_heads", "4" },
    { "ffn", "96" },   { "vocab", "128" }, { "experts", "8" },
};
enum { SMALL_COUNT = sizeof small / sizeof *small };

struct fixture {
    struct arena arena;
    struct subject subject;
    struct simulation sim;
    struct plm_error error;
};

static enum plm_status run(struct fixture *f, const char *model, struct plm_strategy strategy)
{
    char path[512];
    struct model_text text = { .file = model };

    *f = (struct fixture){ 0 };
    snprintf(path, sizeof path, TEST_SOURCE "/models/%s.yaml", model);
    if (file_read(path, 1 << 20, &f->arena, &text.text, &text.length, &f->error) ||
        model_load(&text, NULL, &f->arena, &f->subject.model, &f->error))
        fail_msg("%s", f->error.message);
    return simulate(&f->subject, &strategy, 0, &f->sim, &f->error);
}

static void finish(struct fixture *f)
{
    simulation_finish(&f->sim);
    arena_finish(&f->arena);
}

static const struct param *find(struct fixture *f, const char *name)
{
    size_t count;
    const struct param *params = train_params(f->sim.run, &count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names_text(&f->sim.names, params[i].name), name) == 0)
            return &params[i];
    fail_msg("no parameter '%s'", name);
    return NULL;
}

/* "every expert lives whole on a single rank" where efsdp = fsdp / ep is 1, and otherwise its group shards it */
static void a_rank_keeps_its_share_of_the_experts(void **state)
{
    static const struct {
        struct plm_parallel parallel;
        int64_t rows;
    } rows[] = {
        { { .ep = 4, .fsdp = 4 }, 2 },
        { { .ep = 8, .fsdp = 8 }, 1 },
        { { .ep = 2, .fsdp = 8 }, 1 },
        { { .ep = 2, .fsdp = 4 }, 2 },
        { { .ep = 2 }, 4 },
        { { .ep = 4, .hsdp_replicate = 2, .hsdp_shard = 4 }, 2 },
        { { .ep = 2, .hsdp_replicate = 2, .hsdp_shard = 4 }, 2 },
        { { .ep = 4, .fsdp = 2, .cp = 2 }, 2 },
        { { .ep = 4, .fsdp = 4, .tp = 2 }, 1 },
        { { .ep = 2, .tp = 2 }, 4 },
        { { .ep = 2, .fsdp = 4, .load = PLM_LOAD_META }, 2 },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plm_strategy strategy = {
            .seq = 128,
            .settings = small,
            .setting_count = SMALL_COUNT,
            .parallel = rows[i].parallel,
        };
        struct fixture f;

        if (run(&f, "mixtral", strategy))
            fail_msg("%s", f.error.message);
        const struct param *p = find(&f, "model.layers.0.mlp.experts.down_proj");

        assert_int_equal(p->sizes[0], 8); /* the whole model's, which is what reports count */
        assert_int_equal(p->tensor->sizes[0], rows[i].rows);
        finish(&f);
    }
}

/* has_rows() - rows that the grouped product has, from the size of its output's allocation */
static bool has_rows(const struct fixture *f, int64_t rows)
{
    const struct ghost *g = train_ghost(f->sim.run);

    for (size_t i = 1; i < g->record_count; i++)
        if (g->records[i].op == OP_GROUPED_MM && g->records[i].bytes == (plm_bytes)(rows * 64 * 4))
            return true;
    return false;
}

static void the_most_loaded_rank_gets_its_multiple_of_the_mean(void **state)
{
    static const struct {
        double imbalance;
        int64_t rows;
    } rows[] = { { 0, 128 }, { 1, 128 }, { 1.5, 192 }, { 1.001, 129 }, { 4, 512 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plm_strategy strategy = {
            .seq = 64, /* two experts for each token: 128 rows */
            .settings = small,
            .setting_count = SMALL_COUNT,
            .parallel = { .ep = 4, .moe_imbalance = rows[i].imbalance },
        };
        struct fixture f;

        if (run(&f, "mixtral", strategy))
            fail_msg("%s", f.error.message);
        assert_true(has_rows(&f, rows[i].rows));
        finish(&f);
    }
}

/* 64 tokens choose 2 of 8 experts: 16 rows for each, of which every rank sends as many as there is room for */
static void with_a_capacity_every_rank_gets_as_many_rows(void **state)
{
    static const struct {
        double factor;
        int64_t ep, rows;
    } rows[] = { { 1, 4, 128 }, { 1, 2, 128 }, { 1.25, 4, 160 }, { 0.5, 4, 64 }, { 1.01, 4, 136 } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plm_strategy strategy = {
            .seq = 64,
            .settings = small,
            .setting_count = SMALL_COUNT,
            .parallel = { .ep = rows[i].ep, .moe_capacity_factor = rows[i].factor },
        };
        struct fixture f;

        if (run(&f, "mixtral", strategy))
            fail_msg("%s", f.error.message);
        assert_true(has_rows(&f, rows[i].rows));
        finish(&f);
    }
}

/* ranks of --tp have the same 64 tokens, with two experts each, and send a part of the rows */
static void ranks_that_share_a_batch_share_out_its_rows(void **state)
{
    const struct plm_strategy strategy = {
        .seq = 64,
        .settings = small,
        .setting_count = SMALL_COUNT,
        .parallel = { .ep = 4, .tp = 2, .fsdp = 2 },
    };
    struct fixture f;

    if (run(&f, "mixtral", strategy))
        fail_msg("%s", f.error.message);
    assert_true(has_rows(&f, 64));
    assert_false(has_rows(&f, 128));
    finish(&f);
}

static void an_evaluation_of_ranks_that_share_a_batch_is_refused(void **state)
{
    struct fixture f;

    assert_int_equal(
        run(&f, "mixtral",
            (struct plm_strategy){ .seq = 64, .eval = true, .parallel = { .ep = 2, .tp = 2 } }),
        PLM_E_USAGE);
    assert_non_null(strstr(f.error.message, "AllReduceEP"));
    finish(&f);
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *model;
        struct plm_parallel parallel;
        const char *why;
    } rows[] = {
        { "gpt2", { .ep = 2 }, "marks no parameter with 'expert_parallel'" },
        { "mixtral", { .ep = 4, .fsdp = 6 }, "ep: 4 must divide the 6 ranks" },
        { "mixtral", { .ep = 2, .ddp = 2 }, "--ep and --ddp are not combined" },
        { "mixtral", { .ep = 2, .tp = 4 }, "ep: 2 must be a multiple of --tp 4" },
        { "mixtral", { .ep = 8, .tp = 2, .fsdp = 2 }, "ep: 8 must divide the 4 ranks" },
        { "mixtral",
          { .ep = 4, .hsdp_replicate = 4, .hsdp_shard = 2 },
          "the 2 ranks of a replica of --hsdp" },
        { "mixtral", { .ep = 4, .cp = 2, .fsdp = 3 }, "ep: 4 must divide the 6 ranks" },
        { "mixtral", { .ep = 2, .moe_imbalance = 2.5 }, "moe-imbalance: from 1" },
        { "mixtral", { .ep = 2, .moe_imbalance = 0.5 }, "moe-imbalance: from 1" },
        { "mixtral", { .moe_imbalance = 1.5 }, "moe-imbalance: needs --ep N" },
        { "mixtral", { .moe_capacity_factor = 1.5 }, "moe-capacity-factor: needs --ep N" },
        { "mixtral", { .ep = 2, .moe_capacity_factor = 1001 }, "moe-capacity-factor: above 0" },
        { "mixtral",
          { .ep = 2, .moe_capacity_factor = 1, .moe_imbalance = 1.5 },
          "moe-imbalance: with --moe-capacity-factor" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;

        if (run(&f, rows[i].model, (struct plm_strategy){ .parallel = rows[i].parallel }) !=
            PLM_E_USAGE)
            fail_msg("row %zu is not refused: %s", i, rows[i].why);
        if (!strstr(f.error.message, rows[i].why))
            fail_msg("row %zu: '%s' does not say '%s'", i, f.error.message, rows[i].why);
        arena_finish(&f.arena);
    }
}

static void clipping_over_two_meshes_is_refused(void **state)
{
    struct fixture f;

    assert_int_equal(
        run(&f, "mixtral", (struct plm_strategy){ .clip_grad_norm = 1, .parallel = { .ep = 2 } }),
        PLM_E_USAGE);
    assert_non_null(strstr(f.error.message, "two meshes"));
    arena_finish(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_received_rows_go_back),
        cmocka_unit_test(rows_of_ranks_are_padded_to_the_most),
        cmocka_unit_test(what_is_put_by_index_gets_its_rows_of_the_gradient),
        cmocka_unit_test(a_rank_keeps_its_share_of_the_experts),
        cmocka_unit_test(the_most_loaded_rank_gets_its_multiple_of_the_mean),
        cmocka_unit_test(with_a_capacity_every_rank_gets_as_many_rows),
        cmocka_unit_test(ranks_that_share_a_batch_share_out_its_rows),
        cmocka_unit_test(an_evaluation_of_ranks_that_share_a_batch_is_refused),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(clipping_over_two_meshes_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
