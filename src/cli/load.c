/* cli/load.c - model and strategy from the command line */
#include "cli/load.h"
#include "base/error.h"
#include "cli/here.h"
#include "cli/libraries.h"

const char load_missing[] =
    "needs a MODEL: a name that 'plimsoll models' lists, a YAML file or a config.json";

enum plm_status load_strategy_with(struct cli *cli,
                                   const struct options *options,
                                   struct plm_strategy *ret_strategy,
                                   struct plm_error *reterr)
{
    struct plm_strategy strategy = options->strategy;

    if (options->device) {
        bool here = here_asked(options->device);
        enum plm_status status =
            here ? here_find(cli, options->device, &strategy.device, reterr)
                 : plm_device_find(cli->context, options->device, &strategy.device, reterr);

        if (status != PLM_OK)
            return status;
        if (!here)
            here_compare(cli, strategy.device);
    }
    if (options->deepspeed) {
        enum plm_status status = plm_deepspeed_read(options->deepspeed, &strategy, reterr);

        if (status != PLM_OK)
            return status;
        strategy.parallel.deepspeed.file = options->deepspeed;
        if (cli->command == &cmd_plan && options->global_batch > 0 &&
            strategy.accumulate != options->strategy.accumulate)
            return plm_fail(reterr, PLM_E_USAGE,
                            "'%s' fixes gradient_accumulation_steps at %lld, and a plan with "
                            "--global-batch looks for it: write \"auto\" there",
                            options->deepspeed, (long long)strategy.accumulate);
        if (cli->command == &cmd_plan && strategy.batch != options->strategy.batch)
            return plm_fail(reterr, PLM_E_USAGE,
                            "'%s' fixes the batch at %lld, and a plan looks for one: write "
                            "\"auto\" there",
                            options->deepspeed, (long long)strategy.batch);
    }
    *ret_strategy = strategy;
    return PLM_OK;
}

enum plm_status load_strategy(struct cli *cli,
                              struct plm_strategy *ret_strategy,
                              struct plm_error *reterr)
{
    return load_strategy_with(cli, &cli->options, ret_strategy, reterr);
}

enum plm_status load_model(struct cli *cli, struct plm_model **ret_model, struct plm_error *reterr)
{
    enum plm_status status = libraries_add(cli->context, cli->options.cudnn, &cli->arena, reterr);

    if (status != PLM_OK)
        return status;
    return plm_model_load(cli->context, cli->arguments[0], ret_model, reterr);
}

enum plm_status load_both(struct cli *cli,
                          struct plm_model **ret_model,
                          struct plm_strategy *ret_strategy,
                          struct plm_error *reterr)
{
    enum plm_status status = load_strategy(cli, ret_strategy, reterr);

    return status == PLM_OK ? load_model(cli, ret_model, reterr) : status;
}
