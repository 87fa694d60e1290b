/* cli/talk.c - standard error, in the form that editors jump to */
#include <stdio.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/talk.h"

/* say() - @kind stands before the message */
static void say(const struct plm_error *error, const char *kind)
{
    if (error->file[0] == '\0')
        fputs("plimsoll", stderr);
    else if (error->line > 0)
        fprintf(stderr, "%s:%u:%u", error->file, error->line, error->column);
    else
        fputs(error->file, stderr);
    fprintf(stderr, ": %s%s%s%s\n", kind, error->path, error->path[0] ? ": " : "",
            error->message[0] ? error->message : "failed without saying why");
}

void talk_error(const struct plm_error *error)
{
    say(error, "");
}

void talk_left_out(const struct plm_error *wrong, size_t wrong_count)
{
    for (size_t i = 0; i < wrong_count; i++)
        say(&wrong[i], "warning: left out: ");
}

enum exit_status talk_fail(enum plm_status status, const struct plm_error *error)
{
    talk_error(error);
    return status == PLM_E_DEVICE ? EXIT_TROUBLE : EXIT_USAGE;
}

void talk_warnings(const char *const *warnings, size_t warning_count)
{
    for (size_t i = 0; i < warning_count; i++)
        fprintf(stderr, "plimsoll: warning: %s\n", warnings[i]);
}

void talk_note(const char *text)
{
    fprintf(stderr, "plimsoll: %s\n", text);
}

enum { BAR = 30 };
static const char bar[] = "##############################";

void progress_report(void *context, const char *what, unsigned done, unsigned total)
{
    struct progress *progress = context;
    double time = clock_seconds();

    if (progress->started == 0)
        progress->started = time;
    if (time - progress->started < 1 || time - progress->shown < 0.1 || !isatty(STDERR_FILENO))
        return;
    progress->shown = time;
    if (total > 0)
        fprintf(stderr, "\r\033[K%s [%.*s%*s] %u of %u", what, (int)(BAR * (uint64_t)done / total),
                bar, BAR - (int)(BAR * (uint64_t)done / total), "", done, total);
    else
        fprintf(stderr, "\r\033[K%s %u", what, done);
}

void progress_finish(struct progress *progress)
{
    if (progress->shown > 0)
        fputs("\r\033[K", stderr);
    progress->shown = 0;
}
