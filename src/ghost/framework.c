/* ghost/framework.c - finding a version's rules */
#include <string.h>

#include "ghost/framework.h"

static const struct framework frameworks[] = {
#define FRAMEWORK(version, ...) { .name = version, __VA_ARGS__ },
#include "ghost/framework.def"
#undef FRAMEWORK
};

enum { FRAMEWORK_COUNT = sizeof frameworks / sizeof frameworks[0] };

const struct framework *framework_find(const char *name)
{
    for (size_t i = 0; i < FRAMEWORK_COUNT; i++)
        if (strcmp(frameworks[i].name, name) == 0)
            return &frameworks[i];
    return NULL;
}

const struct framework *framework_all(size_t *ret_count)
{
    *ret_count = FRAMEWORK_COUNT;
    return frameworks;
}
