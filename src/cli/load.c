/* cli/load.c - model and strategy from the command line */
#include "cli/load.h"
#include "base/error.h"
#include "cli/here.h"
#include "cli/libraries.h"

const char load_missing[] =
    "needs a MODEL: a name that 'plimsoll models' lists, a YAML file or a config.json";

/* load_named() - the device that needs no asking for the GPU here; NULL where it does, or none is named */
static enum plm_status load_named(struct cli *cli,
                                  const struct options *options,
                                  const struct plm_device **ret_device,
                                  struct plm_error *reterr)
{
    const struct plm_device *device = NULL;
    int64_t number;
    enum plm_status status = PLM_OK;

    if (options->device && here_asked(options->device))
        status = here_number(options->device, &number, reterr);
    else if (options->device)
        status = plm_device_find(cli->context, options->device, &device, reterr);
    if (status != PLM_OK)
        return status;
    if (device)
        here_compare(cli, device);
    *ret_device = device;
    return PLM_OK;
}

enum plm_status load_here(struct cli *cli,
                          const struct options *options,
                          const struct plm_device **device,
                          struct plm_error *reterr)
{
    if (!options->device || !here_asked(options->device))
        return PLM_OK;
    return here_find(cli, options->device, device, reterr);
}

enum plm_status load_device(struct cli *cli,
                            const struct options *options,
                            const struct plm_device **ret_device,
                            struct plm_error *reterr)
{
    enum plm_status status = load_named(cli, options, ret_device, reterr);

    return status == PLM_OK ? load_here(cli, options, ret_device, reterr) : status;
}

/* check_search() - what a plan looks for, the file leaves open */
static enum plm_status check_search(const struct options *options,
                                    const struct plm_strategy *read,
                                    struct plm_error *reterr)
{
    if (options->global_batch > 0 && read->accumulate != options->strategy.accumulate)
        return plm_fail(reterr, PLM_E_USAGE,
                        "'%s' fixes gradient_accumulation_steps at %lld, and a plan with "
                        "--global-batch looks for it: write \"auto\" there",
                        options->deepspeed, (long long)read->accumulate);
    if (read->batch != options->strategy.batch)
        return plm_fail(reterr, PLM_E_USAGE,
                        "'%s' fixes the batch at %lld, and a plan looks for one: write \"auto\" "
                        "there",
                        options->deepspeed, (long long)read->batch);
    return PLM_OK;
}

enum plm_status load_given(const struct cli *cli,
                           const struct options *options,
                           struct plm_strategy *ret_strategy,
                           struct plm_error *reterr)
{
    struct plm_strategy strategy = options->strategy;
    enum plm_status status = PLM_OK;

    strategy.has_precision = options->given[OPTION_PRECISION];
    strategy.has_optimizer = options->given[OPTION_OPTIMIZER];
    strategy.parallel.deepspeed.has_offload = options->given[OPTION_ZERO_OFFLOAD];
    strategy.parallel.deepspeed.file = options->deepspeed;
    if (options->deepspeed)
        status = plm_deepspeed_read(options->deepspeed, &strategy, reterr);
    if (status == PLM_OK && options->deepspeed && cli->command == &cmd_plan)
        status = check_search(options, &strategy, reterr);
    if (status == PLM_OK)
        *ret_strategy = strategy;
    return status;
}

enum plm_status load_model(struct cli *cli, struct plm_model **ret_model, struct plm_error *reterr)
{
    enum plm_status status = libraries_add(cli->context, cli->options.cudnn, &cli->arena, reterr);

    if (status != PLM_OK)
        return status;
    return plm_model_load(cli->context, cli->arguments[0], ret_model, reterr);
}

enum plm_status load_input(struct cli *cli,
                           struct plm_model **ret_model,
                           struct plm_strategy *ret_strategy,
                           struct plm_error *reterr)
{
    const struct plm_device *device;
    enum plm_status status = load_named(cli, &cli->options, &device, reterr);

    if (status == PLM_OK)
        status = load_given(cli, &cli->options, ret_strategy, reterr);
    if (status != PLM_OK)
        return status;
    ret_strategy->device = device;
    return load_model(cli, ret_model, reterr);
}

enum plm_status load_both(struct cli *cli,
                          struct plm_model **ret_model,
                          struct plm_strategy *ret_strategy,
                          struct plm_error *reterr)
{
    struct plm_model *model;
    enum plm_status status = load_input(cli, &model, ret_strategy, reterr);

    if (status != PLM_OK)
        return status;
    status = load_here(cli, &cli->options, &ret_strategy->device, reterr);
    if (status == PLM_OK)
        *ret_model = model;
    else
        plm_model_destroy(model);
    return status;
}

enum plm_status load_check(struct plm_model *model,
                           const struct plm_strategy *strategy,
                           struct plm_error *reterr)
{
    struct plm_estimate *estimate;
    enum plm_status status = plm_estimate(model, strategy, &estimate, reterr);

    if (status == PLM_OK)
        plm_estimate_destroy(estimate);
    return status;
}
