/* test-save.c - files are written whole or not at all */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/save.h"
#include "support/test.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[160];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/plimsoll-save-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static unsigned entries(void)
{
    DIR *dir = opendir(folder);
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2; /* . and .. */
}

static int remove_folder(void **state)
{
    unlink(in_folder("file"));
    unlink(in_folder("link"));
    return rmdir(folder);
}

static void assert_holds(const char *name, const char *text)
{
    char read_back[64] = "";
    FILE *file = fopen(in_folder(name), "r");

    assert_non_null(file);
    assert_int_equal(fread(read_back, 1, sizeof read_back - 1, file), strlen(text));
    fclose(file);
    assert_string_equal(read_back, text);
}

static void a_file_is_made_and_replaced(void **state)
{
    struct stat info;

    assert_int_equal(save_file(in_folder("file"), "first", 5, NULL), PLM_OK);
    assert_holds("file", "first");
    assert_int_equal(chmod(in_folder("file"), 0640), 0);
    assert_int_equal(save_file(in_folder("file"), "2nd", 3, NULL), PLM_OK);
    assert_holds("file", "2nd");
    assert_int_equal(stat(in_folder("file"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640); /* as it was */
    assert_int_equal(entries(), 1);
}

static void a_link_is_followed(void **state)
{
    struct stat info;

    assert_int_equal(save_file(in_folder("file"), "old", 3, NULL), PLM_OK);
    assert_int_equal(symlink("file", in_folder("link")), 0);
    assert_int_equal(save_file(in_folder("link"), "new", 3, NULL), PLM_OK);
    assert_holds("file", "new");
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    unlink(in_folder("link"));
}

static void a_full_disk_is_no_success(void **state)
{
    struct plm_error error;

    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(save_file("/dev/full", "text", 4, &error), PLM_E_IO);
    assert_non_null(strstr(error.message, strerror(ENOSPC)));
}

static void a_pipe_is_written_to_directly(void **state)
{
    char path[32], text[8] = "";
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    assert_int_equal(save_try(path, 10000, NULL), PLM_OK);
    assert_int_equal(save_file(path, "text", 4, NULL), PLM_OK);
    assert_int_equal(read(ends[0], text, sizeof text), 4);
    assert_string_equal(text, "text");
    close(ends[0]);
    close(ends[1]);
}

static void what_cannot_be_created_is_a_mistake_of_usage(void **state)
{
    struct plm_error error;

    assert_int_equal(save_file(in_folder("no/such"), "text", 4, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, strerror(ENOENT)));
    assert_int_equal(save_file(folder, "text", 4, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, strerror(EISDIR)));
}

static void a_file_is_tried_and_nothing_is_left(void **state)
{
    struct rlimit limit, small;
    struct plm_error error;

    assert_int_equal(save_try(in_folder("file"), 10000, NULL), PLM_OK);
    assert_int_equal(entries(), 0);
    assert_int_equal(save_file(in_folder("file"), "old", 3, NULL), PLM_OK);
    assert_int_equal(save_try(in_folder("file"), 10000, NULL), PLM_OK);
    assert_holds("file", "old");

    assert_int_equal(save_try(in_folder("no/such"), 1, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, strerror(ENOENT)));
    assert_int_equal(save_try(folder, 1, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, strerror(EISDIR)));
    assert_int_equal(save_try("/dev/null", 1, &error), PLM_OK);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){ .rlim_cur = 5000, .rlim_max = limit.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum plm_status status = save_try(in_folder("file"), 10000, &error);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, PLM_E_IO);
    assert_non_null(strstr(error.message, strerror(EFBIG)));
    assert_holds("file", "old");
    assert_int_equal(entries(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_made_and_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_link_is_followed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_is_tried_and_nothing_is_left, make_folder,
                                        remove_folder),
        cmocka_unit_test(a_full_disk_is_no_success),
        cmocka_unit_test(a_pipe_is_written_to_directly),
        cmocka_unit_test_setup_teardown(what_cannot_be_created_is_a_mistake_of_usage, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
