/*
 * answer.c - another program that uses the installed library: answer MODELS-FOLDER
 *
 * .ci/run compiles it against what `meson install` put in place, with the flags that pkg-config gives.
 */
#include <stdio.h>

#include <plimsoll/plimsoll.h>

int main(int argc, char **argv)
{
    struct plm_context *context = plm_context_create();
    struct plm_strategy strategy = { .precision = PLM_PRECISION_AMP_BF16, .batch = 2, .seq = 128 };
    struct plm_model *model = NULL;
    struct plm_estimate *estimate = NULL;
    struct plm_error error = { 0 };

    plm_context_add_models(context, argc > 1 ? argv[1] : ".");
    enum plm_status status = plm_model_load(context, "gpt2", &model, &error);

    if (status == PLM_OK)
        status = plm_estimate(model, &strategy, &estimate, &error);
    if (status != PLM_OK) {
        fprintf(stderr, "%s:%u: %s\n", error.file, error.line, error.message);
        return 1;
    }
    const struct plm_result *result = plm_estimate_result(estimate);

    printf("%llu parameters, %llu bytes allocated at most\n",
           (unsigned long long)result->parameters, (unsigned long long)result->peak.allocated);
    plm_estimate_destroy(estimate);
    plm_model_destroy(model);
    plm_context_destroy(context);
    return 0;
}
