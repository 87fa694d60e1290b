/*
 * report/watch_json.c - a whole watch for programs, as JSON and as CSV
 *
 * Keys are stable: they are documented in plimsoll-watch(1).
 */
#include <math.h>

#include "report/csv.h"
#include "report/json_report.h"
#include "report/watch.h"

static const char *basis_word(enum plm_watch_basis basis)
{
    static const char *const words[] = {
        [PLM_WATCH_PROCESSES] = "processes",
        [PLM_WATCH_GROWTH] = "growth",
        [PLM_WATCH_DEVICE] = "device",
    };

    return words[basis];
}

static void write_end(struct json *json, const struct watch_report *report)
{
    static const char *const words[] = {
        [WATCH_RUNS] = "runs",
        [WATCH_ENDED] = "ended",
        [WATCH_EXITED] = "exited",
        [WATCH_KILLED] = "killed",
    };

    json_field_string(json, "end", words[report->end]);
    if (report->end == WATCH_EXITED)
        json_field_int(json, "exit_status", report->code);
    else
        json_field_null(json, "exit_status");
    if (report->end == WATCH_KILLED)
        json_field_int(json, "signal", report->code);
    else
        json_field_null(json, "signal");
}

static void write_plan(struct json *json, const struct watch_plan *plan)
{
    json_key(json, "plan");
    if (plan->device == 0) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    json_field_string(json, "source", plan->source);
    json_field_uint(json, "device_bytes", plan->device);
    json_field_uint(json, "low_bytes", plan->low);
    json_field_uint(json, "high_bytes", plan->high);
    json_field_bool(json, "without_context", plan->without_context);
    json_field_bool(json, "out_of_memory", plan->fails);
    json_close(json, '}');
}

static void write_trend(struct json *json, const struct plm_watch_trend *trend)
{
    json_key(json, "trend");
    if (!trend->known) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    json_field_bool(json, "leak", trend->leak);
    json_field_real(json, "bytes_per_second", trend->slope);
    json_field_real(json, "bytes_per_second_low", trend->slope_low);
    json_field_real(json, "bytes_per_second_high", trend->slope_high);
    json_field_real(json, "p", trend->p);
    json_field_uint(json, "growth_bytes", trend->growth);
    json_field_real(json, "from_seconds", trend->from);
    json_field_real(json, "to_seconds", trend->to);
    json_field_real(json, "found_seconds", trend->found ? trend->found_at : NAN);
    json_field_uint(json, "growth_since_found_bytes", trend->since);
    json_close(json, '}');
}

static void write_points(struct json *json, const struct plm_watch_gpu *gpu)
{
    json_key(json, "points");
    json_open(json, '[');
    for (size_t i = 0; i < gpu->point_count; i++) {
        const struct plm_watch_point *point = &gpu->points[i];

        json_open(json, '{');
        json_field_real(json, "seconds", point->time);
        json_field_uint(json, "job_bytes", point->job);
        json_field_uint(json, "job_low_bytes", point->job_low);
        json_field_uint(json, "used_bytes", point->used);
        json_field_uint(json, "free_bytes", point->free);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_gpu(struct json *json,
                      const struct watch_report *report,
                      const struct plm_watch_gpu *gpu)
{
    json_open(json, '{');
    json_field_string(json, "gpu", gpu->id);
    json_field_string(json, "name", gpu->name);
    json_field_string(json, "uuid", gpu->uuid);
    if (gpu->ecc < 0)
        json_field_null(json, "ecc");
    else
        json_field_bool(json, "ecc", gpu->ecc != 0);
    json_field_string(json, "compute_mode", gpu->compute_mode);
    json_field_uint(json, "total_bytes", gpu->total);
    json_field_uint(json, "driver_bytes", gpu->driver);
    json_field_string(json, "basis", basis_word(gpu->basis));
    json_field_string(json, "basis_reason", gpu->why);
    json_field_uint(json, "peak_bytes", gpu->peak);
    json_field_real(json, "peak_seconds", gpu->peak_time);
    if (report->plan->device > 0)
        json_field_int(json, "plan_less_peak_bytes",
                       (int64_t)report->plan->device - (int64_t)gpu->peak);
    else
        json_field_null(json, "plan_less_peak_bytes");
    json_field_uint(json, "used_peak_bytes", gpu->used_peak);
    json_field_uint(json, "free_low_bytes", gpu->free_low);
    json_field_uint(json, "margin_bytes", watch_margin(report, gpu));
    write_trend(json, &gpu->trend);
    write_points(json, gpu);
    json_close(json, '}');
}

void watch_json(const struct watch_report *report, struct buf *out)
{
    const struct plm_watch_result *result = report->result;
    struct json json = { .out = out };

    json_document(&json, "watch");
    json_field_string(&json, "job", report->title);
    json_field_int(&json, "pid", report->pid);
    write_end(&json, report);
    json_field_real(&json, "seconds", result->seconds);
    json_field_real(&json, "interval_seconds", report->interval);
    json_field_uint(&json, "samples", result->samples);
    json_field_uint(&json, "failed_samples", result->failed);
    json_field_string(&json, "failure", result->failure);
    json_field_string(&json, "driver", result->driver);
    write_plan(&json, report->plan);
    json_key(&json, "gpus");
    json_open(&json, '[');
    for (size_t i = 0; i < result->gpu_count; i++)
        write_gpu(&json, report, &result->gpus[i]);
    json_close(&json, ']');
    json_close(&json, '}');
    json_finish(&json);
}

void watch_csv(const struct watch_report *report, struct buf *out)
{
    const struct plm_watch_result *result = report->result;

    buf_text(
        out,
        "gpu,uuid,seconds,job_bytes,job_low_bytes,used_bytes,free_bytes,total_bytes,plan_bytes,basis\n");
    for (size_t i = 0; i < result->gpu_count; i++) {
        const struct plm_watch_gpu *gpu = &result->gpus[i];

        for (size_t j = 0; j < gpu->point_count; j++) {
            const struct plm_watch_point *point = &gpu->points[j];

            buf_printf(out, "%s,", gpu->id);
            csv_field(out, gpu->uuid);
            buf_printf(out, ",%.3f,%llu,%llu,%llu,%llu,%llu,", point->time,
                       (unsigned long long)point->job, (unsigned long long)point->job_low,
                       (unsigned long long)point->used, (unsigned long long)point->free,
                       (unsigned long long)gpu->total);
            if (report->plan->device > 0)
                buf_printf(out, "%llu", (unsigned long long)report->plan->device);
            buf_printf(out, ",%s\n", basis_word(gpu->basis));
        }
    }
}
