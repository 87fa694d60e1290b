/* cli/cmd_devices.c - plimsoll devices: the built-in profiles, or one with its sources */
#include "cli/answer.h"
#include "cli/here.h"
#include "cli/talk.h"

static const struct column columns[] = {
    { "name", "device", CELL_TEXT },
    { "total_bytes", "memory", CELL_BYTES },
    { "context_bytes", "context", CELL_BYTES },
    { "sm_count", "SMs", CELL_COUNT },
    { "compute_capability", "cc", CELL_TEXT },
    { "title", "name to CUDA", CELL_TEXT },
    { "threads_per_sm", NULL, CELL_COUNT },
    { "source", NULL, CELL_TEXT },
    { "context_source", NULL, CELL_TEXT },
    { "calibrated", NULL, CELL_TEXT },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void fill_row(struct cli *cli, const struct plm_device *device, struct cell cells[COLUMNS])
{
    struct buf cc = { .arena = &cli->arena };

    buf_printf(&cc, "%d.%d", device->cc / 10, device->cc % 10);
    cells[0].text = device->name;
    cells[1].number = device->total;
    cells[2].number = device->context;
    cells[3].number = (uint64_t)device->sm_count;
    cells[4].text = buf_string(&cc);
    cells[5].text = device->title;
    cells[6].number = (uint64_t)device->threads_per_sm;
    cells[7].text = device->source;
    cells[8].text = device->context_source;
    cells[9].text = device->calibrated ? "true" : "false";
}

static enum exit_status run(struct cli *cli)
{
    bool one = cli->argument_count > 0;
    const struct plm_device *devices;
    size_t device_count = 1;
    struct plm_error error;
    enum plm_status status = PLM_OK;
    struct buf text = { .arena = &cli->arena };
    struct cell *cells;

    if (one) {
        status = here_asked(cli->arguments[0])
                     ? here_find(cli, cli->arguments[0], &devices, &error)
                     : plm_device_find(cli->context, cli->arguments[0], &devices, &error);
    } else {
        struct plm_device_list list;

        plm_devices(cli->context, &list);
        talk_left_out(list.wrong, list.wrong_count);
        devices = list.items;
        device_count = list.count;
    }
    if (status != PLM_OK)
        return talk_fail(status, &error);
    cells = arena_array(&cli->arena, struct cell, device_count * COLUMNS);
    for (size_t i = 0; i < device_count; i++)
        fill_row(cli, &devices[i], cells + i * COLUMNS);

    struct list list = { "devices", columns, COLUMNS, cells, device_count, cli->colour };

    answer_renderer(cli)->list(&list, &text);
    if (one && !cli->options.json && !cli->options.csv)
        buf_printf(&text, "\nmemory:  %s\ncontext: %s\n",
                   devices->source ? devices->source : "no source given",
                   devices->context_source ? devices->context_source : "no source given");
    return answer_write(cli, &text, EXIT_FITS);
}

const struct command cmd_devices = {
    .name = "devices",
    .arguments = "[DEVICE]",
    .help = "the GPUs that are known by name, or one with its sources",
    .about =
        "List the built-in device profiles: total memory as CUDA reports it, what a CUDA context takes, SMs and compute capability. "
        "With a DEVICE (a name, a profile's file, or local: the profile of the GPU here): where its numbers come from.",
    .most = 1,
    .run = run,
};
