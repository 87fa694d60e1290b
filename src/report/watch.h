/*
 * report/watch.h - a watch while it runs, and what came out of it
 *
 * As everywhere in report/ nothing is printed here: the functions append to a buf.
 */
#ifndef PLM_REPORT_WATCH_H
#define PLM_REPORT_WATCH_H

#include "plimsoll/watch.h"
#include "report/layout.h"

/* struct watch_plan - the line that the job is held against; device 0: none was given */
struct watch_plan {
    const char *source;   /* "gpt2, batch 8", a file's name, or "--plan" */
    plm_bytes device;     /* what it says that the process takes */
    plm_bytes low, high;  /* the range that is known of it; both device when there is none */
    bool without_context; /* no CUDA context is in it */
    bool fails;           /* it says that memory runs out */
};

/* how a job ended */
enum watch_end {
    WATCH_RUNS,   /* it goes on: the watch was stopped */
    WATCH_ENDED,  /* a process that the watch did not start: nobody told how */
    WATCH_EXITED, /* with struct watch_report.code */
    WATCH_KILLED, /* by the signal of that number */
};

struct watch_report {
    const struct plm_watch_result *result;
    const struct watch_plan *plan;
    const char *title; /* the command, or "process 4711" */
    int64_t pid;
    double interval;
    double margin_share;    /* of the device: less free memory than that is too little, … */
    plm_bytes margin_bytes; /* … and less than this */
    enum watch_end end;
    int code;
};

/* watch_frame() - @height lines of at most @width columns: a drawing of the worst GPU; each ends with a line's end */
void watch_frame(const struct watch_report *report,
                 struct layout *layout,
                 size_t width,
                 size_t height);
enum { WATCH_FRAME_LEAST = 5, WATCH_FRAME_WIDTH_LEAST = 40 };

/* watch_line() - the same as one line, for a log */
void watch_line(const struct watch_report *report, struct layout *layout);

/* watch_margin() - the larger of the two */
plm_bytes watch_margin(const struct watch_report *report, const struct plm_watch_gpu *gpu);

/* watch_time() - "12.5 s", "0:12:31" */
void watch_time(struct buf *out, double seconds);

/* watch_rate() - "12.1 MiB/min" */
void watch_rate(struct buf *out, double bytes_per_second);

/* the whole watch */
void watch_text(const struct watch_report *report, struct layout *layout);
void watch_json(const struct watch_report *report, struct buf *out);
void watch_csv(const struct watch_report *report, struct buf *out);

#endif
