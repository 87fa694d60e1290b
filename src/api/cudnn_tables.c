/*
 * api/cudnn_tables.c - tables of cuDNN's workspaces for a model: what a common strategy of it asks, on GPUs of each generation
 *
 * A plan depends on the compute capability alone (docs/decisions/0011), so one GPU stands for all of a kind.
 */
#include "api/internal.h"

static const char *const devices[] = { "t4",   "a100-80", "rtx3090", "rtx4090",
                                       "h100", "b200",    "rtx5090" };

/* struct load - what people train a kind of model with; batches are per GPU, and the lists end with 0 */
struct load {
    int64_t batches[16], lengths[8];
};

static const struct load images = { .batches = { 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256 } };
static const struct load texts = { .batches = { 1, 2, 4, 8, 16, 32 },
                                   .lengths = { 128, 512, 1024, 2048, 4096 } };

static const struct {
    enum plm_precision precision;
    bool channels_last;
} variants[] = {
    { PLM_PRECISION_FP32, false },     { PLM_PRECISION_FP32, true },
    { PLM_PRECISION_AMP_FP16, false }, { PLM_PRECISION_AMP_FP16, true },
    { PLM_PRECISION_AMP_BF16, false }, { PLM_PRECISION_AMP_BF16, true },
};

/* struct questions - how many there were: answered by a library, without cuBLASLt among those, and by no library */
struct questions {
    uint64_t asked, left_out, unanswered;
};

/* ask_variants() - one step under each, of which only the questions matter */
static enum plm_status ask_variants(struct plm_model *model,
                                    const struct plm_device *device,
                                    int64_t batch,
                                    int64_t length,
                                    struct questions *questions,
                                    struct plm_error *reterr)
{
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        struct plm_strategy strategy = {
            .batch = batch,
            .seq = length,
            .steps = 1,
            .precision = variants[v].precision,
            .channels_last = variants[v].channels_last,
            .device = device,
            .capacity = SIMULATE_BYTES_MOST, /* all of the step runs, also where it does not fit */
        };
        struct simulation sim;
        enum plm_status status = PLM_OK;

        if (length > 0 && variants[v].channels_last) /* which a text has not */
            continue;
        status = simulate(&model->subject, &strategy, 0, &sim, reterr);
        if (status != PLM_OK)
            return status;
        questions->asked += sim.workspaces.asked;
        questions->left_out += sim.workspaces.left_out;
        questions->unanswered += sim.workspaces.looked_up + sim.workspaces.unanswered;
        simulation_finish(&sim);
    }
    return PLM_OK;
}

static enum plm_status ask(struct plm_model *model,
                           const struct plm_device *device,
                           struct questions *questions,
                           struct plm_error *reterr)
{
    const struct load *load = model->subject.model->seq > 0 ? &texts : &images;
    enum plm_status status = PLM_OK;

    for (const int64_t *batch = load->batches; *batch; batch++) {
        const int64_t *length = load->lengths;

        do
            status = ask_variants(model, device, *batch, *length, questions, reterr);
        while (status == PLM_OK && *length && *++length);
        if (status != PLM_OK)
            break;
    }
    return status;
}

enum plm_status plm_cudnn_tables(struct plm_model *model,
                                 const char *folder,
                                 const char *source,
                                 size_t *ret_count,
                                 struct plm_error *reterr)
{
    struct cudnn *cudnn = model->context->cudnn;
    struct questions questions = { 0 };
    enum plm_status status = PLM_OK;

    cudnn_record(cudnn);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0] && status == PLM_OK; i++) {
        const struct plm_device *device;

        status = plm_device_find(model->context, devices[i], &device, reterr);
        if (status == PLM_OK)
            status = ask(model, device, &questions, reterr);
    }
    if (status != PLM_OK)
        return status;
    if (questions.asked == 0 && questions.unanswered == 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "the model has nothing that cuDNN decides: no convolution, no attention of "
                        "cuDNN's");
    if (questions.asked == 0)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no libcudnn of version 9.8 or later answered; PLIMSOLL_CUDNN names one");
    if (questions.left_out > 0)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "nothing stands in for cuBLASLt here, and a table must not lack the plans "
                        "that use it");
    return cudnn_write_tables(cudnn, folder, source, ret_count, reterr);
}
