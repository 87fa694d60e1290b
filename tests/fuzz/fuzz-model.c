/*
 * fuzz/fuzz-model.c - any bytes as a model file: loaded, filled in, dumped; and as a config.json
 *
 * Whatever the bytes, there must be a result or an error with a message and a place inside of the text. A dump of an accepted
 * model is made twice, because loading and building leave nothing behind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "import/config_json.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char base[] =
    "plimsoll: 1\n"
    "dims: {layers: 2, width: 8}\n"
    "options: {attention: [sdpa, eager], tied: true, dropout: 0.1}\n"
    "inputs: {x: {dtype: float32, shape: [batch, width]}}\n"
    "main: {nodes: [{as: x, op: relu, in: x}], out: x}\n"
    "config_json: {architectures: [A], dims: {layers: [n, m]}, options: {tied: t}, "
    "assumes: {act: silu}}\n";

static enum plm_status find(void *context,
                            const char *name,
                            const char *from,
                            struct arena *arena,
                            struct model_text *ret_text,
                            struct plm_error *reterr)
{
    (void)context;
    (void)from;
    (void)arena;
    if (strcmp(name, "base") != 0)
        return plm_fail(reterr, PLM_E_IO, "no such model");
    *ret_text = (struct model_text){ "base.yaml", base, sizeof base - 1 };
    return PLM_OK;
}

/* require() - unlike assert, also when NDEBUG is defined */
static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_error(const struct plm_error *error, const uint8_t *data, size_t size)
{
    unsigned lines = 1;

    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || data[i] == '\r' || data[i] >= 0x80; /* NEL, LS and PS too */
    require(error->message[0] != '\0' && strlen(error->message) < sizeof error->message);
    require(strcmp(error->file, "base.yaml") == 0 || error->line <= lines + 1);
    require((error->line == 0) == (error->column == 0));
}

static void load(const struct model_text *text,
                 const struct model_finder *finder,
                 struct arena *arena)
{
    struct plm_error error = { 0 };
    const struct model *model;
    const struct graph *graph, *again;
    struct graph_settings settings = { .training = true, .step_max = 20000 };
    struct buf first = { .arena = arena }, second = { .arena = arena };

    if (model_load(text, finder, arena, &model, &error)) {
        check_error(&error, (const uint8_t *)text->text, text->length);
        return;
    }
    model_dump(model, &first);
    first.length = 0;
    if (graph_build(model, &settings, arena, &graph, &error)) {
        check_error(&error, (const uint8_t *)text->text, text->length);
        return;
    }
    graph_dump(graph, &first);
    require(graph_build(model, &settings, arena, &again, &error) == PLM_OK);
    graph_dump(again, &second);
    require(strcmp(buf_string(&first), buf_string(&second)) == 0);
}

static void import(const struct model_text *text,
                   const struct model_finder *finder,
                   struct arena *arena)
{
    struct model_text zoo;
    const struct model *model;
    const struct yaml_node *root;
    struct config_import config;
    struct plm_error error = { 0 };

    require(find(NULL, "base", "", arena, &zoo, &error) == PLM_OK);
    require(model_load(&zoo, finder, arena, &model, &error) == PLM_OK);
    if (yaml_parse("config.json", text->text, text->length, arena, &root, &error))
        return;
    if (config_json_import(root, &model, 1, arena, &config, &error))
        require(error.message[0] != '\0');
    else
        require(config.model == model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct model_text text = { "fuzz.yaml", (const char *)data, size };
    struct model_finder finder = { NULL, find };

    load(&text, &finder, &arena);
    import(&text, &finder, &arena);
    arena_finish(&arena);
    return 0;
}
