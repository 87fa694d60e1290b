/* cli/calibrate_cudnn.h - plimsoll calibrate --cudnn MODEL: write tables of cuDNN's workspaces */
#ifndef PLM_CLI_CALIBRATE_CUDNN_H
#define PLM_CLI_CALIBRATE_CUDNN_H

#include "cli/command.h"

/* calibrate_cudnn() - the model and the folder are in the options; no GPU is needed, but a libcudnn */
enum exit_status calibrate_cudnn(struct cli *cli);

#endif
