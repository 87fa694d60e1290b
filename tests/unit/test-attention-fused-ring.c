/*
 * test-attention-fused-ring.c - Transformer Engine's ring of keys and values against what its source says
 *
 * AttnFuncWithCPAndKVP2P of context_parallel.py (2.11). Whole runs of that Python are held against in tests/reference/megatron.jsonl.
 */
#include "support/ghost.h"
#include "support/test.h"

enum { ROWS = 96, BATCH = 1, HEADS = 4, PAIR_HEADS = 1, SIZE = 64, RANKS = 5 };

/* what one rank holds, in bfloat16 */
enum {
    QUERIES = 2 * ROWS * BATCH * HEADS * SIZE,
    KEYS = 2 * ROWS * BATCH * PAIR_HEADS * SIZE,
    LSE = 4 * BATCH * HEADS * ROWS,
};

/* attend() - one call of the operator on a rank of RANKS, with a gradient of the query; owned */
static struct tensor *attend(struct test_ghost *t, int64_t rank)
{
    struct ghost *g = &t->ghost;
    TENSOR_AUTO *query = test_tensor(g, DTYPE_BFLOAT16, ROWS, BATCH, HEADS, SIZE);
    TENSOR_AUTO *key = test_tensor(g, DTYPE_BFLOAT16, ROWS, BATCH, PAIR_HEADS, SIZE);
    TENSOR_AUTO *value = test_tensor(g, DTYPE_BFLOAT16, ROWS, BATCH, PAIR_HEADS, SIZE);
    const struct attr attrs[] = { test_int(KEY_QUERY_HEADS, HEADS), test_int(KEY_SIZE, SIZE) };
    struct tensor *out = NULL;

    g->category = CATEGORY_ACTIVATION;
    autograd_leaf(query);
    op_call(g,
            &(struct op_args){ .op = OP_FUSED_ATTENTION,
                               .in_count = 3,
                               .attr_count = 2,
                               .out_count = 1,
                               .in = (struct tensor *[]){ query, key, value },
                               .attrs = attrs,
                               .ring = { .size = RANKS, .rank = rank } },
            &out);
    assert_false(g->halt);
    return out;
}

/* made() - how many allocations of a kind and size there were from record @first on */
static unsigned made(const struct ghost *g, size_t first, enum category category, plm_bytes bytes)
{
    unsigned count = 0;

    for (size_t i = first; i < g->record_count; i++)
        count += g->records[i].category == category && g->records[i].bytes == bytes;
    return count;
}

/* live() - how many are not freed, and their bytes */
static size_t live(const struct test_ghost *t, plm_bytes *ret_bytes)
{
    size_t count = 0;

    *ret_bytes = 0;
    for (size_t i = 0; i < t->schedule.event_count; i++) {
        const struct event *e = &t->schedule.events[i];

        if (e->kind == EVENT_ALLOC) {
            count++;
            *ret_bytes += e->bytes;
        } else if (e->kind == EVENT_FREE) {
            count--;
            *ret_bytes -= t->ghost.records[e->allocation].bytes;
        }
    }
    return count;
}

/* "cp_size = 4: d u u u / l d u u / …": all queries up to the rank's own step, the second half of them after that */
static void steps_are_diagonal_then_lower_then_upper_triangle(void **state)
{
    for (int64_t rank = 0; rank < RANKS; rank++) {
        struct test_ghost t;

        test_ghost_start(&t);
        struct tensor *out = attend(&t, rank);
        const struct ghost *g = &t.ghost;

        assert_int_equal(made(g, 1, CATEGORY_TEMPORARY, QUERIES), 1 + rank);
        assert_int_equal(made(g, 1, CATEGORY_TEMPORARY, QUERIES / 2), RANKS - 1 - rank);
        assert_int_equal(made(g, 1, CATEGORY_TEMPORARY, LSE), 1 + rank);
        assert_int_equal(made(g, 1, CATEGORY_TEMPORARY, LSE / 2), RANKS - 1 - rank);
        assert_int_equal(made(g, 1, CATEGORY_COMMUNICATION, 2 * KEYS), RANKS);
        tensor_drop(out);
        test_ghost_finish(&t);
    }
}

/* save_for_backward(): q, kv that came last, out, softmax_lse, rng_states; k and v themselves are let go of */
static void what_came_last_is_kept_and_not_the_ranks_own(void **state)
{
    struct test_ghost t;
    plm_bytes bytes;

    test_ghost_start(&t);
    struct tensor *out = attend(&t, 2);

    assert_int_equal(live(&t, &bytes), 4 + RANKS);
    assert_int_equal(bytes, QUERIES + 2 * KEYS + QUERIES + LSE + RANKS * 16);
    tensor_drop(out);
    assert_int_equal(live(&t, &bytes), 0);
    test_ghost_finish(&t);
}

static void odd_steps_have_a_stream_of_their_own(void **state)
{
    struct test_ghost t;
    unsigned aside = 0;

    test_ghost_start(&t);
    struct tensor *out = attend(&t, 0);

    for (size_t i = 0; i < t.schedule.event_count; i++)
        aside += t.schedule.events[i].kind == EVENT_ALLOC && t.schedule.events[i].stream != 0;
    /* steps 1 and 3: out, softmax_lse and rng_state, and the buffer for what comes next */
    assert_int_equal(aside, 2 * 4);
    tensor_drop(out);
    test_ghost_finish(&t);
}

/* "P2P communication of KV and dKV": two buffers of both, however many ranks; dq in one of its own */
static void the_backward_has_two_buffers_of_everything(void **state)
{
    for (int64_t rank = 0; rank < RANKS; rank++) {
        struct test_ghost t;
        struct ghost *g = &t.ghost;

        test_ghost_start(&t);
        struct tensor *out = attend(&t, rank);
        TENSOR_AUTO *loss = test_op(g, OP_SUM, test_in(out));
        size_t first = g->record_count;

        tensor_drop(out);
        autograd_backward(g, loss, NULL);
        assert_int_equal(made(g, first, CATEGORY_COMMUNICATION, 4 * KEYS), 2);
        /* the second half of the statistics, for the upper triangle */
        assert_int_equal(made(g, first, CATEGORY_ACTIVATION_GRADIENT, LSE / 2), rank < RANKS - 1);
        /* keys and values of the diagonal and of the upper triangle; half of them of the lower */
        assert_int_equal(made(g, first, CATEGORY_ACTIVATION_GRADIENT, KEYS),
                         2 * (1 + RANKS - 1 - rank));
        assert_int_equal(made(g, first, CATEGORY_ACTIVATION_GRADIENT, KEYS / 2), 2 * rank);
        tensor_drop(tensor_take(&loss));
        test_ghost_finish(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_diagonal_then_lower_then_upper_triangle),
        cmocka_unit_test(what_came_last_is_kept_and_not_the_ranks_own),
        cmocka_unit_test(odd_steps_have_a_stream_of_their_own),
        cmocka_unit_test(the_backward_has_two_buffers_of_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
