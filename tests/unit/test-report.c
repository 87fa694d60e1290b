/* test-report.c - the reports of one invented result, letter for letter */
#include <string.h>

#include "plan/estimate.h"
#include "report/bands.h"
#include "report/phases.h"
#include "report/report.h"
#include "report/timeline.h"
#include "support/test.h"

#define GIB(n) ((plm_bytes)((n)*1073741824.0))
#define MEMORY(requested, allocated, reserved, device)                                             \
    {                                                                                              \
        GIB(requested), GIB(allocated), GIB(reserved), GIB(device)                                 \
    }

static const struct plm_device device = {
    .name = "toy-8",
    .title = "Toy GPU",
    .total = GIB(8),
    .context = GIB(0.5),
    .cc = 80,
    .source = "invented",
    .context_source = "invented too",
};

static const struct plm_phase phases[] = {
    { "load", -1, 0, MEMORY(1, 1, 1, 1.5), GIB(1), GIB(1) },
    { "forward", 0, 0, MEMORY(2, 2.25, 2.5, 3), GIB(2), GIB(2.5) },
    { "backward", 0, 0, MEMORY(3, 3, 3.5, 4), GIB(2), GIB(3.5) },
    { "forward", 1, 0, MEMORY(4, 4.25, 4.5, 5), GIB(3), GIB(4.5) },
    { "backward", 1, 0, MEMORY(3.5, 3.5, 4.5, 5), GIB(2), GIB(4.5) },
    { "forward", 1, 1, MEMORY(4, 4.25, 4.5, 5), GIB(3), GIB(4.5) },
    { "backward", 1, 1, MEMORY(3.75, 3.75, 4.5, 5), GIB(2), GIB(4.5) },
    { "forward", 2, 0, MEMORY(4, 4.25, 4.5, 5), GIB(3), GIB(4.5) },
    { "backward", 2, 0, MEMORY(3.75, 3.75, 4.5, 5), GIB(2), GIB(4.5) },
};
static const struct plm_step_peak steps[] = {
    { GIB(3), GIB(3.5), GIB(3) },
    { GIB(4.25), GIB(4.5), GIB(4) },
    { GIB(4.25), GIB(4.5), GIB(4) },
};
static const struct plm_share categories[] = { { "activation", GIB(3), 12 },
                                               { "parameter", GIB(1), 4 } };
static const struct plm_share blocks[] = { { "h.0", GIB(3), 12 }, { "", GIB(1), 4 } };
static const struct plm_ledger_line ledger[] = { { "weights", 4000000, 4.0 },
                                                 { "master copies", 0, 0 } };
static const char *const doubts[] = { "lion (lion-pytorch 0.2)" };
static const char *const warnings[] = { "nothing to checkpoint" };

static const struct plm_result fits = {
    .model = "toy",
    .framework = "pytorch-2.15",
    .allocator = "",
    .parameters = 1000000,
    .trainable_parameters = 1000000,
    .batch = 8,
    .seq = 128,
    .fits = 1,
    .peak = MEMORY(4, 4.25, 4.5, 5),
    .at = { .phase = "forward", .op = "linear", .block = "h.0", .step = 1 },
    .capacity = GIB(8),
    .context = GIB(0.5),
    .steps = steps,
    .step_count = 3,
    .phases = phases,
    .phase_count = sizeof phases / sizeof *phases,
    .live_by_category = categories,
    .live_by_category_count = 2,
    .live_by_block = blocks,
    .live_by_block_count = 2,
    .ledger = ledger,
    .ledger_count = 2,
    .advice = "a smaller batch",
    .warnings = warnings,
    .warning_count = 1,
    .unverified = doubts,
    .unverified_count = 1,
    .device = &device,
};

static const struct plm_setting settings[] = { { "layers", "2" } };
static const struct plm_strategy strategy = {
    .precision = PLM_PRECISION_BF16,
    .optimizer = PLM_OPTIMIZER_LION,
    .checkpoint = PLM_CHECKPOINT_EVERY,
    .checkpoint_count = 2,
    .accumulate = 2,
    .clip_grad_norm = 1.0,
    .settings = settings,
    .setting_count = 1,
    .device = &device,
};

/* assert_text() - equal, and the first difference is shown with its line */
static void assert_text(const char *text, const char *expected)
{
    size_t i = 0, line = 1, start = 0;

    for (; text[i] && text[i] == expected[i]; i++)
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    if (text[i] != expected[i])
        fail_msg("line %zu:\n%.*s\nexpected:\n%.*s", line, (int)strcspn(text + start, "\n"),
                 text + start, (int)strcspn(expected + start, "\n"), expected + start);
}

static const char *estimate(struct arena *arena,
                            const struct renderer *renderer,
                            const struct plm_result *result)
{
    struct buf out = { .arena = arena };
    struct report report = { .strategy = &strategy, .device_name = "toy-8", .result = result };

    renderer->estimate(&report, &out);
    return buf_string(&out);
}

/* clang-format off */
static const char expected_text[] =
    "Fits on toy-8: 5.00 GiB of 8.00 GiB, 3.00 GiB stay free\n"
    "█████████████████████████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░  62.5 %\n"
    "> a smaller batch\n"
    "\n"
    "Peak memory\n"
    "  requested     4.00 GiB      4,294,967,296  what live tensors asked for\n"
    "  allocated     4.25 GiB      4,563,402,752  max_memory_allocated()\n"
    "  reserved      4.50 GiB      4,831,838,208  max_memory_reserved()\n"
    "  device        5.00 GiB      5,368,709,120  nvidia-smi; 512.00 MiB of context\n"
    "\n"
    "Phases                         requested   allocated    reserved left after\n"
    "  setup      load               1.00 GiB    1.00 GiB    1.00 GiB   1.00 GiB\n"
    "  step 0     forward            2.00 GiB    2.25 GiB    2.50 GiB   2.00 GiB\n"
    "             backward           3.00 GiB    3.00 GiB    3.50 GiB   2.00 GiB\n"
    "  step 1-2   forward            4.00 GiB    4.25 GiB    4.50 GiB   3.00 GiB peak\n"
    "             backward           3.75 GiB    3.75 GiB    4.50 GiB   2.00 GiB\n"
    "\n"
    "Alive at the peak, by kind                    share   tensors\n"
    "  activation                       3.00 GiB  75.0 %        12  ████████████▊\n"
    "  parameter                        1.00 GiB  25.0 %         4  ████▎\n"
    "\n"
    "by block                                      share   tensors\n"
    "  h.0                              3.00 GiB  75.0 %        12  ████████████▊\n"
    "  (none)                           1.00 GiB  25.0 %         4  ████▎\n"
    "\n"
    "Bytes per parameter\n"
    "  weights                          3.81 MiB    4.00\n"
    "  master copies                           -    0.00\n"
    "\n"
    "Before you rely on it\n"
    "  ? not confirmed by a measurement: lion (lion-pytorch 0.2)\n"
    "\n"
    "toy: 1,000,000 parameters, batch 8, seq 128, bf16, lion, checkpoint every=2,\n"
    "  accumulate 2, clip-grad-norm 1, pytorch-2.15, layers=2\n";
/* clang-format on */

static void an_estimate_is_text_for_people(void **state)
{
    struct arena arena = { 0 };

    assert_text(estimate(&arena, &renderer_text, &fits), expected_text);
    arena_finish(&arena);
}

/* clang-format off */
static const char expected_json[] =
    "{\n"
    "  \"schema_version\": 1,\n"
    "  \"plimsoll\": \"0.1.0\",\n"
    "  \"command\": \"estimate\",\n"
    "  \"model\": \"toy\",\n"
    "  \"recipe\": {\n"
    "    \"batch\": 8,\n"
    "    \"seq\": 128,\n"
    "    \"precision\": \"bf16\",\n"
    "    \"optimizer\": \"lion\",\n"
    "    \"checkpoint\": \"every=2\",\n"
    "    \"checkpoint_chosen\": null,\n"
    "    \"checkpoint_reentrant\": false,\n"
    "    \"accumulate\": 2,\n"
    "    \"clip_grad_norm\": 1,\n"
    "    \"zero_grad\": \"set-to-none\",\n"
    "    \"zero_grad_at\": \"end\",\n"
    "    \"keep_outputs\": false,\n"
    "    \"frozen\": null,\n"
    "    \"eval\": false,\n"
    "    \"channels_last\": false,\n"
    "    \"steps\": null,\n"
    "    \"framework\": \"pytorch-2.15\",\n"
    "    \"allocator\": \"\",\n"
    "    \"cudnn_workspace\": \"auto\",\n"
    "    \"assume\": null,\n"
    "    \"device\": \"toy-8\",\n"
    "    \"set\": {\n"
    "      \"layers\": \"2\"\n"
    "    }\n"
    "  },\n"
    "  \"parameters\": 1000000,\n"
    "  \"trainable_parameters\": 1000000,\n"
    "  \"device\": {\n"
    "    \"name\": \"toy-8\",\n"
    "    \"title\": \"Toy GPU\",\n"
    "    \"source\": \"invented\",\n"
    "    \"context_source\": \"invented too\",\n"
    "    \"calibrated\": false\n"
    "  },\n"
    "  \"capacity_bytes\": 8589934592,\n"
    "  \"context_bytes\": 536870912,\n"
    "  \"nccl_bytes\": 0,\n"
    "  \"nccl_low_bytes\": 0,\n"
    "  \"nccl_high_bytes\": 0,\n"
    "  \"fits\": true,\n"
    "  \"peak\": {\n"
    "    \"requested_bytes\": 4294967296,\n"
    "    \"allocated_bytes\": 4563402752,\n"
    "    \"reserved_bytes\": 4831838208,\n"
    "    \"device_bytes\": 5368709120,\n"
    "    \"phase\": \"forward\",\n"
    "    \"step\": 1,\n"
    "    \"micro\": 0,\n"
    "    \"operator\": \"linear\",\n"
    "    \"block\": \"h.0\",\n"
    "    \"minimum_capacity_bytes\": null\n"
    "  },\n"
    "  \"ranks\": [],\n"
    "  \"rank_reason\": null,\n"
    "  \"steps\": [\n"
    "    {\n"
    "      \"step\": 0,\n"
    "      \"requested_bytes\": 3221225472,\n"
    "      \"allocated_bytes\": 3221225472,\n"
    "      \"reserved_bytes\": 3758096384\n"
    "    },\n"
    "    {\n"
    "      \"step\": 1,\n"
    "      \"requested_bytes\": 4294967296,\n"
    "      \"allocated_bytes\": 4563402752,\n"
    "      \"reserved_bytes\": 4831838208\n"
    "    },\n"
    "    {\n"
    "      \"step\": 2,\n"
    "      \"requested_bytes\": 4294967296,\n"
    "      \"allocated_bytes\": 4563402752,\n"
    "      \"reserved_bytes\": 4831838208\n"
    "    }\n"
    "  ],\n"
    "  \"phases\": [\n"
    "    {\n"
    "      \"name\": \"load\",\n"
    "      \"step\": null,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 1073741824,\n"
    "      \"allocated_bytes\": 1073741824,\n"
    "      \"reserved_bytes\": 1073741824,\n"
    "      \"device_bytes\": 1610612736,\n"
    "      \"allocated_end_bytes\": 1073741824,\n"
    "      \"reserved_end_bytes\": 1073741824\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"forward\",\n"
    "      \"step\": 0,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 2147483648,\n"
    "      \"allocated_bytes\": 2415919104,\n"
    "      \"reserved_bytes\": 2684354560,\n"
    "      \"device_bytes\": 3221225472,\n"
    "      \"allocated_end_bytes\": 2147483648,\n"
    "      \"reserved_end_bytes\": 2684354560\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"backward\",\n"
    "      \"step\": 0,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 3221225472,\n"
    "      \"allocated_bytes\": 3221225472,\n"
    "      \"reserved_bytes\": 3758096384,\n"
    "      \"device_bytes\": 4294967296,\n"
    "      \"allocated_end_bytes\": 2147483648,\n"
    "      \"reserved_end_bytes\": 3758096384\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"forward\",\n"
    "      \"step\": 1,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 4294967296,\n"
    "      \"allocated_bytes\": 4563402752,\n"
    "      \"reserved_bytes\": 4831838208,\n"
    "      \"device_bytes\": 5368709120,\n"
    "      \"allocated_end_bytes\": 3221225472,\n"
    "      \"reserved_end_bytes\": 4831838208\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"backward\",\n"
    "      \"step\": 1,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 3758096384,\n"
    "      \"allocated_bytes\": 3758096384,\n"
    "      \"reserved_bytes\": 4831838208,\n"
    "      \"device_bytes\": 5368709120,\n"
    "      \"allocated_end_bytes\": 2147483648,\n"
    "      \"reserved_end_bytes\": 4831838208\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"forward\",\n"
    "      \"step\": 1,\n"
    "      \"micro\": 1,\n"
    "      \"requested_bytes\": 4294967296,\n"
    "      \"allocated_bytes\": 4563402752,\n"
    "      \"reserved_bytes\": 4831838208,\n"
    "      \"device_bytes\": 5368709120,\n"
    "      \"allocated_end_bytes\": 3221225472,\n"
    "      \"reserved_end_bytes\": 4831838208\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"backward\",\n"
    "      \"step\": 1,\n"
    "      \"micro\": 1,\n"
    "      \"requested_bytes\": 4026531840,\n"
    "      \"allocated_bytes\": 4026531840,\n"
    "      \"reserved_bytes\": 4831838208,\n"
    "      \"device_bytes\": 5368709120,\n"
    "      \"allocated_end_bytes\": 2147483648,\n"
    "      \"reserved_end_bytes\": 4831838208\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"forward\",\n"
    "      \"step\": 2,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 4294967296,\n"
    "      \"allocated_bytes\": 4563402752,\n"
    "      \"reserved_bytes\": 4831838208,\n"
    "      \"device_bytes\": 5368709120,\n"
    "      \"allocated_end_bytes\": 3221225472,\n"
    "      \"reserved_end_bytes\": 4831838208\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"backward\",\n"
    "      \"step\": 2,\n"
    "      \"micro\": 0,\n"
    "      \"requested_bytes\": 4026531840,\n"
    "      \"allocated_bytes\": 4026531840,\n"
    "      \"reserved_bytes\": 4831838208,\n"
    "      \"device_bytes\": 5368709120,\n"
    "      \"allocated_end_bytes\": 2147483648,\n"
    "      \"reserved_end_bytes\": 4831838208\n"
    "    }\n"
    "  ],\n"
    "  \"live_at_peak\": [\n"
    "    {\n"
    "      \"by\": \"category\",\n"
    "      \"name\": \"activation\",\n"
    "      \"bytes\": 3221225472,\n"
    "      \"tensors\": 12\n"
    "    },\n"
    "    {\n"
    "      \"by\": \"category\",\n"
    "      \"name\": \"parameter\",\n"
    "      \"bytes\": 1073741824,\n"
    "      \"tensors\": 4\n"
    "    },\n"
    "    {\n"
    "      \"by\": \"block\",\n"
    "      \"name\": \"h.0\",\n"
    "      \"bytes\": 3221225472,\n"
    "      \"tensors\": 12\n"
    "    },\n"
    "    {\n"
    "      \"by\": \"block\",\n"
    "      \"name\": \"\",\n"
    "      \"bytes\": 1073741824,\n"
    "      \"tensors\": 4\n"
    "    }\n"
    "  ],\n"
    "  \"ledger\": [\n"
    "    {\n"
    "      \"name\": \"weights\",\n"
    "      \"bytes\": 4000000,\n"
    "      \"bytes_per_parameter\": 4\n"
    "    },\n"
    "    {\n"
    "      \"name\": \"master copies\",\n"
    "      \"bytes\": 0,\n"
    "      \"bytes_per_parameter\": 0\n"
    "    }\n"
    "  ],\n"
    "  \"retries\": 0,\n"
    "  \"fallbacks\": 0,\n"
    "  \"failure\": null,\n"
    "  \"advice\": \"a smaller batch\",\n"
    "  \"workspace\": {\n"
    "    \"unknown\": false,\n"
    "    \"low_bytes\": 0,\n"
    "    \"high_bytes\": 0,\n"
    "    \"library\": null,\n"
    "    \"library_calls\": 0,\n"
    "    \"table\": null,\n"
    "    \"table_calls\": 0,\n"
    "    \"unknown_calls\": 0,\n"
    "    \"blas_calls\": 0,\n"
    "    \"blas_most_bytes\": 0,\n"
    "    \"left_out_calls\": 0\n"
    "  },\n"
    "  \"unverified\": [\n"
    "    \"lion (lion-pytorch 0.2)\"\n"
    "  ],\n"
    "  \"warnings\": [\n"
    "    \"nothing to checkpoint\"\n"
    "  ]\n"
    "}\n";
/* clang-format on */

static void an_estimate_is_json_for_programs(void **state)
{
    struct arena arena = { 0 };

    assert_text(estimate(&arena, &renderer_json, &fits), expected_json);
    arena_finish(&arena);
}

/* clang-format off */
static const char expected_csv[] =
    "model,parameters,trainable_parameters,batch,seq,precision,optimizer,checkpoint,checkpoint_chosen,checkpoint_reentrant,accumulate,clip_grad_norm,zero_grad,zero_grad_at,keep_outputs,frozen,eval,channels_last,steps,framework,allocator,cudnn_workspace,assume,device,set,capacity_bytes,context_bytes,requested_bytes,allocated_bytes,reserved_bytes,device_bytes,minimum_capacity_bytes,fits,out_of_memory,phase,step,operator,block,workspace_unknown\n"
    "toy,1000000,1000000,8,128,bf16,lion,every=2,,false,2,1,set-to-none,end,false,,false,false,,pytorch-2.15,,auto,,toy-8,layers=2,8589934592,536870912,4294967296,4563402752,4831838208,5368709120,,true,false,forward,1,linear,h.0,false\n";
/* clang-format on */

static void an_estimate_is_one_row_of_csv(void **state)
{
    struct arena arena = { 0 };

    assert_text(estimate(&arena, &renderer_csv, &fits), expected_csv);
    arena_finish(&arena);
}

static const struct plm_candidate candidates[] = {
    { 7, 2, MEMORY(3, 3.25, 3.5, 4), true, true },
    { 8, 2, MEMORY(4, 4.25, 4.5, 5), true, true },
    { 9, 2, MEMORY(7, 7.25, 7.25, 7.75), true, false },
    { 10, 2, MEMORY(7, 7.25, 7.5, 8), false, false },
};
static const struct plm_plan_result plan_result = {
    .batch = 8,
    .accumulate = 2,
    .data_parallel = 1,
    .gpus = 1,
    .margin = GIB(0.5),
    .reserve = GIB(1),
    .capacity = GIB(8),
    .context = GIB(0.5),
    .margin_reason = "because",
    .candidates = candidates,
    .candidate_count = 4,
    .not_monotone = true,
    .result = &fits,
};

static const char *plan(struct arena *arena,
                        const struct renderer *renderer,
                        const struct plm_plan_result *result)
{
    struct buf out = { .arena = arena };
    struct plm_search search = { .strategy = strategy };
    struct report report = {
        .strategy = &strategy, .result = result->result, .search = &search, .plan = result
    };

    renderer->plan(&report, &out);
    return buf_string(&out);
}

/* clang-format off */
static const char expected_plan[] =
    "Batch 8 × 2 accumulated is the largest that is safe on toy-8 (8.00 GiB)\n"
    "█████████████████████████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░  62.5 %\n"
    "> a smaller batch\n"
    "\n"
    "Ready to paste\n"
    "  --batch 8 --seq 128 --precision bf16 --optimizer lion --checkpoint every=2 \\\n"
    "    --accumulate 2 --clip-grad-norm 1 --framework pytorch-2.15 --set layers=2\n"
    "\n"
    "     batch accum   allocated    reserved      device        free  verdict\n"
    "         7 ×   2    3.25 GiB    3.50 GiB    4.00 GiB    4.00 GiB  safe\n"
    ">        8 ×   2    4.25 GiB    4.50 GiB    5.00 GiB    3.00 GiB  safe\n"
    "         9 ×   2    7.25 GiB    7.25 GiB    7.75 GiB  256.00 MiB  in the margin\n"
    "        10 ×   2    7.25 GiB    7.50 GiB    8.00 GiB           -  out of memory\n"
    "  where memory runs out: what was reached until then\n"
    "\n"
    "Margin\n"
    "  512.00 MiB stay free: because; and 1.00 GiB on top for others\n"
    "  A smaller batch that was tried is not safe: memory does not always grow with\n"
    "  the batch, so do not take just any smaller one.\n"
    "\n"
    "Peak memory\n"
    "  requested     4.00 GiB      4,294,967,296  what live tensors asked for\n"
    "  allocated     4.25 GiB      4,563,402,752  max_memory_allocated()\n"
    "  reserved      4.50 GiB      4,831,838,208  max_memory_reserved()\n"
    "  device        5.00 GiB      5,368,709,120  nvidia-smi; 512.00 MiB of context\n"
    "\n"
    "Before you rely on it\n"
    "  ? not confirmed by a measurement: lion (lion-pytorch 0.2)\n"
    "\n"
    "toy: 1,000,000 parameters, seq 128, bf16, lion, checkpoint every=2, accumulate\n"
    "  2, clip-grad-norm 1, pytorch-2.15, layers=2\n";
/* clang-format on */

static void a_plan_is_text_for_people(void **state)
{
    struct arena arena = { 0 };

    assert_text(plan(&arena, &renderer_text, &plan_result), expected_plan);
    arena_finish(&arena);
}

static void a_plan_is_json_with_candidates(void **state)
{
    struct arena arena = { 0 };
    const char *json = plan(&arena, &renderer_json, &plan_result);

    assert_non_null(strstr(json,
                           "\n  \"batch\": 8,\n  \"accumulate\": 2,\n  \"data_parallel\": 1,\n"
                           "  \"gpus\": 1,\n  \"global_batch\": 16,\n"
                           "  \"margin_bytes\": 536870912,\n"));
    assert_non_null(strstr(json, "\"batch\": 10,\n      \"accumulate\": 2,\n"));
    assert_non_null(strstr(json, "\"finishes\": false,\n      \"safe\": false\n"));
    assert_non_null(strstr(json, "\"fits\": true"));
    arena_finish(&arena);
}

static void what_is_not_there_is_null(void **state)
{
    struct arena arena = { 0 };
    struct plm_result result = fits;

    result.fits = -1;
    result.capacity = 0;
    result.device = NULL;
    result.at.step = -1;
    const char *json = estimate(&arena, &renderer_json, &result);

    assert_non_null(strstr(json, "\"fits\": null"));
    assert_non_null(strstr(json, "\n  \"device\": null,\n  \"capacity_bytes\": null,"));
    assert_non_null(strstr(json, "\"minimum_capacity_bytes\": null"));
    assert_non_null(strstr(json, "\"step\": null,\n    \"micro\": 0"));
    assert_non_null(strstr(estimate(&arena, &renderer_text, &result), "Needs 5.00 GiB"));
    arena_finish(&arena);
}

static void a_failure_says_where_and_how_much(void **state)
{
    struct arena arena = { 0 };
    struct plm_result result = fits;

    result.fits = 0;
    result.out_of_memory = true;
    result.failure.phase = "backward";
    result.failure.op = "linear";
    result.failure.block = "h.1";
    result.failure.request = GIB(4);
    result.failure.segment = GIB(4);
    assert_non_null(strstr(estimate(&arena, &renderer_text, &result),
                           "Does not fit on toy-8 (8.00 GiB): out of memory in backward of step 0, "
                           "in linear\n  (h.1), which asked for 4.00 GiB\n"));
    assert_non_null(strstr(estimate(&arena, &renderer_json, &result),
                           "\"failure\": {\n    \"phase\": \"backward\",\n    \"step\": 0,\n    "
                           "\"operator\": \"linear\",\n    \"block\": \"h.1\",\n    "
                           "\"request_bytes\": 4294967296,\n    \"segment_bytes\": 4294967296\n"));
    arena_finish(&arena);
}

static void no_line_is_wider_than_a_terminal(void **state)
{
    struct arena arena = { 0 };
    struct plm_result result = fits;

    result.peak = (struct plm_memory)MEMORY(1200, 1234.5, 1300, 1400);
    result.capacity = GIB(2000);
    result.at.block = "transformer.h.11.attn.c_attn.and.something.that.is.very.long.indeed";
    result.advice =
        "a long sentence about what would lower the peak, which has to be broken in two";
    result.workspace_unknown = true;
    result.retries = result.fallbacks = 3;
    result.has_minimum_capacity = true;
    result.minimum_capacity = GIB(1200);

    const char *texts[] = { estimate(&arena, &renderer_text, &result), expected_plan };

    for (size_t i = 0; i < 2; i++)
        for (const char *line = texts[i]; *line; line += strcspn(line, "\n") + 1) {
            size_t columns = 0;

            for (const char *c = line; *c != '\n'; c++)
                columns += ((unsigned char)*c & 0xc0) != 0x80;
            if (columns > 80)
                fail_msg("%zu columns: %.*s", columns, (int)strcspn(line, "\n"), line);
            assert_true(line[0] == '\n' || line[strcspn(line, "\n") - 1] != ' ');
        }
    arena_finish(&arena);
}

static void colour_changes_nothing_else(void **state)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena }, plain = { .arena = &arena };
    struct report report = {
        .strategy = &strategy, .device_name = "toy-8", .result = &fits, .colour = true
    };

    renderer_text.estimate(&report, &out);
    for (const char *c = buf_string(&out); *c; c++) {
        if (*c == '\033')
            c += strcspn(c, "m");
        else
            buf_char(&plain, *c);
    }
    assert_true(out.length > plain.length);
    assert_text(buf_string(&plain), expected_text);
    arena_finish(&arena);
}

static void lists_are_aligned_and_quoted(void **state)
{
    static const struct column columns[] = { { "name", "name", CELL_TEXT },
                                             { "size_bytes", "size", CELL_BYTES },
                                             { "hidden", NULL, CELL_COUNT },
                                             { "help", "what", CELL_TEXT } };
    static const struct cell cells[] = { { "a", 0 },        { NULL, GIB(1) }, { NULL, 7 },
                                         { "x, \"y\"", 0 }, { "longer", 0 },  { NULL, 512 },
                                         { NULL, 8 },       { NULL, 0 } };
    struct list list = { "things", columns, 4, cells, 2, false };
    struct arena arena = { 0 };
    struct buf text = { .arena = &arena }, csv = { .arena = &arena }, json = { .arena = &arena };

    renderer_text.list(&list, &text);
    assert_text(buf_string(&text), "name        size  what\n"
                                   "a       1.00 GiB  x, \"y\"\n"
                                   "longer     512 B  \n");
    renderer_csv.list(&list, &csv);
    assert_text(buf_string(&csv), "name,size_bytes,hidden,help\n"
                                  "a,1073741824,7,\"x, \"\"y\"\"\"\n"
                                  "longer,512,8,\n");
    renderer_json.list(&list, &json);
    assert_non_null(strstr(buf_string(&json), "\"size_bytes\": 1073741824,\n      \"hidden\": 7"));
    assert_non_null(strstr(buf_string(&json), "\"help\": null"));
    arena_finish(&arena);
}

static void steps_that_repeat_are_one(void **state)
{
    struct arena arena = { 0 };
    size_t count;
    const struct phase_row *rows = phases_fold(&fits, &arena, &count);

    assert_int_equal(count, 5);
    assert_int_equal(rows[0].first, -1);
    assert_int_equal(rows[3].first, 1);
    assert_int_equal(rows[3].last, 2);
    assert_string_equal(rows[4].name, "backward");
    assert_int_equal(rows[4].peak.allocated, GIB(3.75)); /* of both micro-batches */
    arena_finish(&arena);
}

static void timelines_are_written_for_every_ending(void **state)
{
    static const struct plm_life lives[] = {
        { 1000, 1024, 0x7000000000, 0, UINT32_MAX, "parameter", "linear", "h.0", -1 },
        { 2000, 2048, 0x7000000400, 1, 3, "activation", "gelu", "<h.1>", 0 },
        { 512, 512, 0x7000001000, 2, UINT32_MAX, "gradient", NULL, NULL, 0 },
    };
    static const struct plm_moment moments[] = {
        { 1024, 4096 }, { 3072, 4096 }, { 3584, 8192 }, { 1536, 8192 }
    };
    static const uint32_t events[] = { 0, 1 };
    static const struct plm_timeline timeline = { lives, 3, moments, 4, phases, events, 2 };
    struct timeline_report report = { &timeline, &fits };
    struct arena arena = { 0 };
    struct buf svg = { .arena = &arena }, html = { .arena = &arena }, json = { .arena = &arena },
               pickle = { .arena = &arena };

    timeline_writer_for("a.svg")(&report, &svg);
    assert_non_null(strstr(buf_string(&svg), "<title>activation: 2.00 KiB at the peak</title>"));
    assert_non_null(strstr(buf_string(&svg), "</svg>\n"));
    timeline_writer_for("a.html")(&report, &html);
    assert_non_null(strstr(buf_string(&html), "\"lives\":[1024,1000,0,-1,0,1,2,-1,"
                                              "2048,2000,1,3,2,3,4,0,512,512,2,-1,1,0,0,0]"));
    assert_non_null(strstr(buf_string(&html), "\\u003ch.1>"));
    assert_null(strstr(buf_string(&html), "http"));
    timeline_writer_for("a.json")(&report, &json);
    assert_non_null(strstr(buf_string(&json),
                           "\"ph\":\"C\",\"name\":\"memory\",\"pid\":1,\"tid\":1,"
                           "\"ts\":2,\"args\":{\"allocated\":3584,"
                           "\"reserved\":8192}"));
    timeline_writer_for("a.pickle")(&report, &pickle);
    assert_int_equal(pickle.text[pickle.length - 1], '.');
    assert_null(timeline_writer_for("a.png"));
    assert_null(timeline_writer_for(".svg"));
    arena_finish(&arena);
}

static void a_timeline_says_where_memory_ran_out(void **state)
{
    static const struct plm_timeline timeline = { .phases = phases };
    struct plm_result failed = fits;
    struct timeline_report report = { &timeline, &failed };
    struct arena arena = { 0 };
    struct buf svg = { .arena = &arena }, html = { .arena = &arena }, fit = { .arena = &arena };

    timeline_write_svg(&report, &fit);
    assert_null(strstr(buf_string(&fit), "out of memory"));
    failed.out_of_memory = true;
    failed.failure.phase = "forward";
    failed.failure.step = 0;
    failed.failure.op = "mul";
    failed.failure.request = 2048;
    timeline_write_svg(&report, &svg);
    assert_non_null(strstr(buf_string(&svg),
                           "out of memory in forward of step 0, in mul, which asked for 2.00 KiB"));
    timeline_write_html(&report, &html);
    assert_non_null(strstr(buf_string(&html), "\"failure\":\"out of memory in forward of step 0"));
    arena_finish(&arena);
}

static void every_category_has_a_colour_of_its_own(void **state)
{
    for (int i = 0; i < CATEGORY_COUNT; i++) {
        assert_string_not_equal(bands_colour(category_name((enum category)i)),
                                bands_colour("no such category"));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(bands_colour(category_name((enum category)i)),
                                    bands_colour(category_name((enum category)j)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_estimate_is_text_for_people),
        cmocka_unit_test(an_estimate_is_json_for_programs),
        cmocka_unit_test(an_estimate_is_one_row_of_csv),
        cmocka_unit_test(a_plan_is_text_for_people),
        cmocka_unit_test(a_plan_is_json_with_candidates),
        cmocka_unit_test(what_is_not_there_is_null),
        cmocka_unit_test(a_failure_says_where_and_how_much),
        cmocka_unit_test(no_line_is_wider_than_a_terminal),
        cmocka_unit_test(colour_changes_nothing_else),
        cmocka_unit_test(lists_are_aligned_and_quoted),
        cmocka_unit_test(steps_that_repeat_are_one),
        cmocka_unit_test(timelines_are_written_for_every_ending),
        cmocka_unit_test(a_timeline_says_where_memory_ran_out),
        cmocka_unit_test(every_category_has_a_colour_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
