/* test-device.c - device profiles: every built-in one is read and plausible; errors say where */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "support/test.h"

static const char *const folders[] = { "no/such/folder", TEST_SOURCE "/calib/devices" };
enum { FOLDER_COUNT = sizeof folders / sizeof folders[0] };

static enum plm_status load_text(const char *text,
                                 struct arena *arena,
                                 struct plm_device *ret_device,
                                 struct plm_error *reterr)
{
    char path[] = "/tmp/plimsoll-device-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    enum plm_status status = device_load_file(path, arena, ret_device, reterr);

    unlink(path);
    return status;
}

static void every_built_in_profile_is_read_under_its_file_name(void **state)
{
    struct arena arena = { 0 };
    const struct plm_device *devices;
    struct plm_device_list list;
    const char *const *names;
    size_t count, name_count;

    device_list(folders, FOLDER_COUNT, &arena, &list);
    if (list.wrong_count > 0)
        fail_msg("%s:%u: %s", list.wrong->file, list.wrong->line, list.wrong->message);
    devices = list.items;
    count = list.count;
    device_names(folders, FOLDER_COUNT, &arena, &names, &name_count);
    assert_int_equal(count, name_count);
    assert_true(count >= 30);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(devices[i].name, names[i]);
        assert_true(devices[i].total > (plm_bytes)4 << 30);
        assert_true(devices[i].context >= (plm_bytes)256 << 20);
        assert_true(devices[i].cc >= 70 && devices[i].cc <= 130);
        assert_true(devices[i].source[0] != '\0' && devices[i].context_source[0] != '\0');
        assert_false(devices[i].calibrated);
    }
    arena_finish(&arena);
}

static void an_a100_is_as_cuda_reports_it(void **state)
{
    struct arena arena = { 0 };
    struct plm_device device;

    assert_int_equal(device_find(folders, FOLDER_COUNT, "a100-80", &arena, &device, NULL), PLM_OK);
    assert_string_equal(device.title, "NVIDIA A100-SXM4-80GB");
    assert_int_equal(device.cc, 80);
    assert_int_equal(device.sm_count, 108);
    assert_int_equal(device.threads_per_sm, 2048);
    assert_true(device.total == UINT64_C(85097971712));
    arena_finish(&arena);
}

static void a_devices_family_is_suggested(void **state)
{
    static const struct {
        const char *word, *near;
    } cases[] = {
        { "h100-80", "did you mean 'h100', 'h100-nvl' or 'h100-pcie'?" },
        { "NVIDIA H100", "did you mean 'h100', 'h100-nvl' or 'h100-pcie'?" },
        { "H100-NVL-94GB", "did you mean 'h100-nvl'?" },
        { "a100", "did you mean 'a100-40' or 'a100-80'?" },
        { "a100-80gb", "did you mean 'a100-80'?" },
        { "A100-SXM4-80GB", "did you mean 'a100-40' or 'a100-80'?" },
        { "NVIDIA GeForce RTX 4090", "did you mean 'rtx4090'?" },
        { "3080", "did you mean 'rtx3080'" },
        { "l40", "did you mean 'l40s'?" },
        { "Tesla T4", "did you mean 't4'?" },
        { "h20o", "did you mean 'h200'?" },
        { "quantum", "`plimsoll devices` lists the known ones" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena = { 0 };
        struct plm_device device;
        struct plm_error error = { 0 };

        assert_int_equal(device_find(folders, FOLDER_COUNT, cases[i].word, &arena, &device, &error),
                         PLM_E_USAGE);
        if (!strstr(error.message, cases[i].near))
            fail_msg("%s: %s", cases[i].word, error.message);
        arena_finish(&arena);
    }
}

static void a_misspelt_name_gets_the_nearest(void **state)
{
    struct arena arena = { 0 };
    struct plm_device device;
    struct plm_error error = { 0 };

    assert_int_equal(device_find(folders, FOLDER_COUNT, "rtx490", &arena, &device, &error),
                     PLM_E_USAGE);
    assert_non_null(strstr(error.message, "unknown device 'rtx490'; did you mean 'rtx4"));
    assert_int_equal(device_find(folders, 1, "a100-80", &arena, &device, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "no device profiles were found"));
    assert_int_equal(device_find(folders, FOLDER_COUNT, "no/such.yaml", &arena, &device, &error),
                     PLM_E_IO);
    arena_finish(&arena);
}

#define PROFILE(capability, processors, total, context)                                            \
    "plimsoll: 1\ndevice: x\ncompute_capability: " capability "\nprocessors: " processors          \
    "\nthreads_per_processor: 2048\ntotal: " total "\ntotal_source: a\ncontext: " context          \
    "\ncontext_source: b\n"

static void a_file_of_ones_own_is_read(void **state)
{
    struct arena arena = { 0 };
    struct plm_device device;
    struct plm_error error = { 0 };

    if (load_text(PROFILE("12.1", "48", "24GiB", "0") "calibrated: today\n", &arena, &device,
                  &error) != PLM_OK)
        fail_msg("%s", error.message);
    assert_int_equal(device.cc, 121);
    assert_true(device.total == (plm_bytes)24 << 30);
    assert_true(device.context == 0);
    assert_string_equal(device.title, "x");
    assert_true(device.calibrated);
    arena_finish(&arena);
}

static void errors_say_line_and_column(void **state)
{
    static const struct {
        const char *text, *message;
        unsigned line, column;
    } cases[] = {
        { PROFILE("8.65", "1", "1GiB", "0"), "'compute_capability' must be like 8.6, not '8.65'", 3,
          21 },
        { PROFILE("8", "1", "1GiB", "0"), "'compute_capability' must be like 8.6, not '8'", 3, 21 },
        { PROFILE("8.6", "0", "1GiB", "0"), "'processors' must be from 1 to 4096", 4, 13 },
        { PROFILE("8.6", "1", "2048TiB", "0"), "'total' must be from 1 byte to 1 PiB", 6, 8 },
        { PROFILE("8.6", "1", "1GiB", "1GiB"), "'context' must be less than 'total'", 8, 10 },
    };
    struct arena arena = { 0 };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plm_device device;
        struct plm_error error = { 0 };

        assert_int_not_equal(load_text(cases[i].text, &arena, &device, &error), PLM_OK);
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(error.line, cases[i].line);
        assert_int_equal(error.column, cases[i].column);
    }
    arena_finish(&arena);
}

static void unknown_and_missing_keys_are_errors(void **state)
{
    struct arena arena = { 0 };
    struct plm_device device;
    struct plm_error error = { 0 };

    assert_int_not_equal(
        load_text(PROFILE("8.6", "1", "1GiB", "0") "procesors: 2\n", &arena, &device, &error),
        PLM_OK);
    assert_non_null(strstr(error.message, "'procesors'"));
    assert_int_equal(error.line, 10);
    assert_int_not_equal(load_text("plimsoll: 1\n", &arena, &device, &error), PLM_OK);
    assert_non_null(strstr(error.message, "device"));
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_profile_is_read_under_its_file_name),
        cmocka_unit_test(an_a100_is_as_cuda_reports_it),
        cmocka_unit_test(a_devices_family_is_suggested),
        cmocka_unit_test(a_misspelt_name_gets_the_nearest),
        cmocka_unit_test(a_file_of_ones_own_is_read),
        cmocka_unit_test(errors_say_line_and_column),
        cmocka_unit_test(unknown_and_missing_keys_are_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
