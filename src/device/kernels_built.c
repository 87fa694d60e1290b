/* device/kernels_built.c - the kernels that nvcc made of calib/kernels.cu; bin2c turned them into the array that is declared here */
#include "device/kernels.h"

extern const unsigned long long plimsoll_kernels[];

const void *kernels_image(void)
{
    return plimsoll_kernels;
}
