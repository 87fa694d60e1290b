/* the mesh of a parallel run, its classes of ranks, and what --gpus leaves for data parallelism */
#include <string.h>

#include "plan/ranks.h"
#include "support/test.h"
#include "train/mesh.h"

static void ranks_are_numbered_with_stages_outermost(void **state)
{
    const struct plm_parallel p = { .pp = 3, .fsdp = 4, .tp = 2 };
    struct mesh_place place = mesh_place(&p, 2 * 8 + 1 * 2 + 1);

    assert_int_equal(mesh_count(&p), 24);
    assert_int_equal(place.pipeline, 2);
    assert_int_equal(place.data, 1);
    assert_int_equal(place.tensor, 1);
    for (int64_t rank = 0; rank < 24; rank++)
        assert_int_equal(mesh_rank(&p, mesh_place(&p, rank)), rank);
}

static void parts_of_a_sequence_are_between_data_and_tensor_parallelism(void **state)
{
    const struct plm_parallel p = { .pp = 2, .fsdp = 3, .cp = 4, .tp = 2 };
    struct mesh_place place = mesh_place(&p, 1 * 24 + 2 * 8 + 3 * 2 + 1);

    assert_int_equal(mesh_count(&p), 48);
    assert_int_equal(place.pipeline, 1);
    assert_int_equal(place.data, 2);
    assert_int_equal(place.context, 3);
    assert_int_equal(place.tensor, 1);
    for (int64_t rank = 0; rank < 48; rank++)
        assert_int_equal(mesh_rank(&p, mesh_place(&p, rank)), rank);
    assert_int_equal(mesh_reduced(&p, p.fsdp), 12); /* torchtitan's "dp_shard_cp" */
    assert_int_equal(mesh_reduced_place(&(struct plm_parallel){
                         .megatron = 3, .cp = 4, .tp = 2, .rank = 2 * (4 * 2 + 1) + 1 }),
                     9);
}

static void what_a_model_leaves_is_for_data_parallelism(void **state)
{
    struct plm_parallel p = { .gpus = 16, .pp = 4 };
    struct plm_error error;

    assert_int_equal(mesh_complete(&p, &error), PLM_OK);
    assert_int_equal(p.ddp, 4);
    assert_int_equal(mesh_count(&p), 16);
    p = (struct plm_parallel){ .gpus = 16, .pp = 4, .fsdp = 4 };
    assert_int_equal(mesh_complete(&p, &error), PLM_OK);
    assert_int_equal(p.ddp, 0);
    p = (struct plm_parallel){ .gpus = 4, .pp = 4 };
    assert_int_equal(mesh_complete(&p, &error), PLM_OK);
    assert_int_equal(p.ddp, 0);
    p = (struct plm_parallel){ .gpus = 8, .cp = 4 };
    assert_int_equal(mesh_complete(&p, &error), PLM_OK);
    assert_int_equal(p.ddp, 2);
    p = (struct plm_parallel){ .cp = 4 }; /* somebody must reduce its gradients */
    assert_int_equal(mesh_complete(&p, &error), PLM_OK);
    assert_int_equal(p.ddp, 1);
    assert_int_equal(mesh_count(&p), 4);
}

static void gpus_that_do_not_add_up_are_refused(void **state)
{
    struct plm_parallel p = { .gpus = 10, .pp = 4 };
    struct plm_error error;

    assert_int_equal(mesh_complete(&p, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "not a multiple of the 4"));
    p = (struct plm_parallel){ .gpus = 16, .pp = 4, .fsdp = 8 };
    assert_int_equal(mesh_complete(&p, &error), PLM_E_USAGE);
    assert_non_null(
        strstr(error.message, "leave 4 for data parallelism, and another option says 8"));
    p = (struct plm_parallel){ .gpus = 16, .pp = 2, .tp = 2 };
    assert_int_equal(mesh_complete(&p, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "leave 4 for data parallelism, which with --tp is "
                                          "--fsdp 4 or --megatron 4"));
    p = (struct plm_parallel){ .gpus = 2, .data_parallel = 2 };
    assert_int_equal(mesh_complete(&p, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "--data-parallel 2 is one process"));
}

static void what_loads_its_own_part_is_told_no_place(void **state)
{
    static const struct {
        struct plm_parallel parallel;
        const char *why; /* NULL: it is accepted */
    } rows[] = {
        { { .megatron = 2, .load = PLM_LOAD_META }, "load: Megatron makes" },
        { { .zero = 3, .gpus = 2, .load = PLM_LOAD_HOST }, "load: with --zero 3" },
        { { .zero = 2, .gpus = 2, .load = PLM_LOAD_META }, "load: deepspeed.initialize" },
        { { .zero = 2, .gpus = 2, .load = PLM_LOAD_HOST }, NULL },
        { { .ddp = 2, .load = PLM_LOAD_META }, NULL },
        { { .load = PLM_LOAD_HOST }, NULL },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct plm_parallel p = rows[i].parallel;
        struct plm_error error;

        if (!rows[i].why) {
            assert_int_equal(mesh_complete(&p, &error), PLM_OK);
            continue;
        }
        assert_int_equal(mesh_complete(&p, &error), PLM_E_USAGE);
        assert_non_null(strstr(error.message, rows[i].why));
    }
}

static void a_rank_of_each_class_stands_for_it(void **state)
{
    static const struct {
        struct plm_parallel parallel;
        size_t count;
        const char *first, *last;
        int64_t last_rank;
    } rows[] = {
        { { .ddp = 8 }, 1, "", "", 0 },
        { { .pp = 4 }, 4, "stage 0", "stage 3", 3 },
        { { .pp = 4, .tp = 2 }, 4, "stage 0", "stage 3", 6 },
        { { .fsdp = 8 }, 2, "first shard", "last shard", 7 },
        { { .hsdp_replicate = 2, .hsdp_shard = 4 }, 2, "first shard", "last shard", 3 },
        { { .cp = 4 }, 4, "sequence part 0", "sequence part 3", 3 },
        { { .cp = 2, .fsdp = 4 },
          4,
          "first shard, sequence part 0",
          "last shard, sequence part 1",
          7 },
        { { .cp = 2, .megatron = 2, .distributed_optimizer = true },
          4,
          "first shard, sequence part 0",
          "last shard, sequence part 1",
          3 },
        { { .pp = 2, .fsdp = 4 }, 4, "stage 0, first shard", "stage 1, last shard", 7 },
        { { .pp = 4, .has_rank = true, .rank = 2 }, 1, "", "", 2 },
    };
    struct arena arena = { 0 };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plm_strategy s = { .parallel = rows[i].parallel };
        size_t count;
        const struct rank_class *classes = ranks_classes(&s, &arena, &count);

        assert_int_equal(count, rows[i].count);
        assert_string_equal(classes[0].name, rows[i].first);
        assert_string_equal(classes[count - 1].name, rows[i].last);
        assert_int_equal(classes[count - 1].rank, rows[i].last_rank);
    }
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_numbered_with_stages_outermost),
        cmocka_unit_test(parts_of_a_sequence_are_between_data_and_tensor_parallelism),
        cmocka_unit_test(what_a_model_leaves_is_for_data_parallelism),
        cmocka_unit_test(gpus_that_do_not_add_up_are_refused),
        cmocka_unit_test(what_loads_its_own_part_is_told_no_place),
        cmocka_unit_test(a_rank_of_each_class_stands_for_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
