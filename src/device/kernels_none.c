/* device/kernels_none.c - where there was no nvcc at build: no kernels; meson takes this file or kernels_built.c */
#include <stddef.h>

#include "device/kernels.h"

const void *kernels_image(void)
{
    return NULL;
}
