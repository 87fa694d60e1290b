/* device/kernels.h - the image of calib/kernels.cu that the program carries */
#ifndef PLM_DEVICE_KERNELS_H
#define PLM_DEVICE_KERNELS_H

/* kernels_image() - what cuModuleLoadData takes; NULL when the program was built without nvcc */
const void *kernels_image(void);

#endif
