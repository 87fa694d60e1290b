/*
 * device/cudnn_driver.h - the driver's library, which cuDNN must be able to load before it plans attention
 */
#ifndef PLM_DEVICE_CUDNN_DRIVER_H
#define PLM_DEVICE_CUDNN_DRIVER_H

/*
 * cudnn_driver_load() - have a libcuda.so.1 in this process, if there is one for the libcudnn at @path
 *
 * It stays loaded; nothing in it is called. Without one cuDNN has no plan for attention, and says so.
 */
void cudnn_driver_load(const char *path);

#endif
