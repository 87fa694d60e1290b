/* support/steps.h - whole training steps of a small model, and their events as the recordings have them */
#ifndef PLM_SUPPORT_STEPS_H
#define PLM_SUPPORT_STEPS_H

#include "model/model.h"
#include "train/train.h"

/* TEST_NETWORK() - a loss over layers that are called as @repeat says: "3, checkpoint: true, wrap: true" */
#define TEST_NETWORK(repeat)                                                                       \
    "plimsoll: 1\n"                                                                                \
    "model: network\n"                                                                             \
    "defaults: {batch: 5}\n"                                                                       \
    "inputs:\n"                                                                                    \
    "  x: {dtype: float32, shape: [batch, 130]}\n"                                                 \
    "  labels: {dtype: int64, shape: [batch]}\n"                                                   \
    "blocks:\n"                                                                                    \
    "  layer:\n"                                                                                   \
    "    in: [x]\n"                                                                                \
    "    nodes:\n"                                                                                 \
    "      - {as: x, op: linear, in: x, features: 110, name: fc}\n"                                \
    "      - {as: x, op: layer_norm, in: x, name: norm}\n"                                         \
    "      - {as: x, op: relu, in: x}\n"                                                           \
    "    out: x\n"                                                                                 \
    "  model:\n"                                                                                   \
    "    in: [x]\n"                                                                                \
    "    nodes:\n"                                                                                 \
    "      - {as: x, call: layer, in: x, name: h, repeat: " repeat "}\n"                           \
    "      - {as: x, op: linear, in: x, features: 10, bias: false, name: out}\n"                   \
    "    out: x\n"                                                                                 \
    "main:\n"                                                                                      \
    "  in: [x, labels]\n"                                                                          \
    "  nodes:\n"                                                                                   \
    "    - {as: logits, call: model, in: x}\n"                                                     \
    "    - {as: loss, op: cross_entropy, in: [logits, labels]}\n"                                  \
    "  out: [loss, logits]\n"

/* struct test_steps - a run on an a100-80 under PyTorch 2.15; what differs on a GPU is as on the ghost GPU */
struct test_steps {
    struct arena arena;
    struct names names;
    struct schedule schedule;
    struct run *run;
    struct plm_error error;
};

/* test_steps_create() - find the parameters of the model in @text; test_steps_finish() is due in any case */
PLM_MUST_CHECK enum plm_status test_steps_create(struct test_steps *t,
                                                 const char *text,
                                                 const struct plm_strategy *strategy);

/* test_steps_run() - create, load, and two steps; the first failure */
PLM_MUST_CHECK enum plm_status test_steps_run(struct test_steps *t,
                                              const char *text,
                                              const struct plm_strategy *strategy);

/* test_steps_finish() - the schedule must be one */
void test_steps_finish(struct test_steps *t);

/*
 * test_steps_text() - all allocations and releases, "+864 +32@1 -32 -864"; it lives as long as the run
 *
 * "@1" is the second stream that is seen. What is returned between two allocations is sorted: its order has no effect.
 */
const char *test_steps_text(struct test_steps *t);

/* test_steps_expect() - two steps of @text make these events */
void test_steps_expect(const char *text, const struct plm_strategy *strategy, const char *events);

/* test_steps_refused() - the strategy is a usage error, with @part in its message */
void test_steps_refused(const struct plm_strategy *strategy, const char *text, const char *part);

#endif
