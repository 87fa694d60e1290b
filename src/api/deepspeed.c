/* api/deepspeed.c - a DeepSpeed configuration file, as the public interface reads it */
#include "import/deepspeed_json.h"
#include "import/hjson.h"
#include "yaml/file.h"

enum plm_status plm_deepspeed_read(const char *file,
                                   struct plm_strategy *strategy,
                                   struct plm_error *reterr)
{
    struct arena scratch = { 0 };
    struct plm_strategy read = *strategy;
    const struct yaml_node *root;
    const char *text;
    size_t length;
    enum plm_status status = file_read(file, YAML_BYTES_MAX, &scratch, &text, &length, reterr);

    if (!status)
        status = hjson_parse(file, text, length, &scratch, &root, reterr);
    if (!status)
        status = deepspeed_json_import(root, &read, reterr);
    if (!status)
        *strategy = read;
    arena_finish(&scratch);
    return status;
}
