/* fuzz/replay.c - hands every file of a folder to a fuzzing harness, as libFuzzer would: replay FOLDER */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* give() - one file, in a block of its exact size, so that a sanitizer sees a read past its end */
static int give(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size;
    uint8_t *data = NULL;
    int ok = file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
             fseek(file, 0, SEEK_SET) == 0 && (data = malloc((size_t)size + (size == 0))) &&
             fread(data, 1, (size_t)size, file) == (size_t)size;

    if (ok)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    else
        perror(path);
    free(data);
    if (file)
        fclose(file);
    return ok;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    size_t count = 0;

    if (!folder) {
        fprintf(stderr, "usage: replay FOLDER\n");
        return 2;
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (!give(path))
            return 1;
        count++;
    }
    closedir(folder);
    printf("%zu inputs\n", count);
    return count > 0 ? 0 : 1;
}
