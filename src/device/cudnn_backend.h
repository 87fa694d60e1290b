/*
 * device/cudnn_backend.h - the little of cuDNN's backend API that planning needs, declared here
 *
 * So the program is built without cuDNN's headers, and one program works with any cuDNN 9. Names and values are those of
 * NVIDIA's documentation of the backend API (cudnn_graph library, enumeration types cudnnBackendDescriptorType_t,
 * cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t and
 * cudnnDataType_t, cudnnPointwiseMode_t and cudnnBackendKnobType_t): https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html.
 * They are part of the library's binary interface and do not change within cuDNN 9.
 */
#ifndef PLM_DEVICE_CUDNN_BACKEND_H
#define PLM_DEVICE_CUDNN_BACKEND_H

#include <stddef.h>
#include <stdint.h>

/* The first version with CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR: major * 10000 + minor * 100 + patch. */
enum { CUDNN_PLANS_SINCE = 90800 };

enum backend_descriptor {
    BACKEND_POINTWISE = 0,
    BACKEND_CONVOLUTION = 1,
    BACKEND_ENGINE = 2,
    BACKEND_ENGINECFG = 3,
    BACKEND_ENGINEHEUR = 4,
    BACKEND_EXECUTION_PLAN = 5,
    BACKEND_KNOB_CHOICE = 7,
    BACKEND_CONVOLUTION_FORWARD = 10,
    BACKEND_CONVOLUTION_BACKWARD_FILTER = 11,
    BACKEND_CONVOLUTION_BACKWARD_DATA = 12,
    BACKEND_OPERATION_POINTWISE = 13,
    BACKEND_OPERATIONGRAPH = 15,
    BACKEND_TENSOR = 17,
    BACKEND_MATMUL = 18,
    BACKEND_OPERATION_MATMUL = 19,
    BACKEND_REDUCTION = 21,
    BACKEND_OPERATION_REDUCTION = 22,
    BACKEND_OPERATION_RESHAPE = 31,
    BACKEND_DEVICEPROP = 38,
    BACKEND_OPERATION_SDPA_FORWARD = 41,
    BACKEND_OPERATION_DIAGONAL_BAND_MASK = 44,
    BACKEND_OPERATION_SOFTMAX = 45,
};

enum backend_attribute {
    ATTR_POINTWISE_MODE = 0,
    ATTR_POINTWISE_MATH_PREC = 1,
    ATTR_CONVOLUTION_COMP_TYPE = 100,
    ATTR_CONVOLUTION_MODE = 101,
    ATTR_CONVOLUTION_DILATIONS = 102,
    ATTR_CONVOLUTION_STRIDES = 103,
    ATTR_CONVOLUTION_POST_PADDINGS = 104,
    ATTR_CONVOLUTION_PRE_PADDINGS = 105,
    ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
    ATTR_ENGINEHEUR_MODE = 200,
    ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
    ATTR_ENGINEHEUR_RESULTS = 202,
    ATTR_ENGINEHEUR_DEVICEPROP = 204,
    ATTR_ENGINECFG_ENGINE = 300,
    ATTR_ENGINECFG_KNOB_CHOICES = 302,
    ATTR_ENGINECFG_WORKSPACE_SIZE = 303,
    ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,
    ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    ATTR_EXECUTION_PLAN_DEVICEPROP = 407,
    ATTR_KNOB_CHOICE_TYPE = 600,
    ATTR_KNOB_CHOICE_VALUE = 601,
    ATTR_FORWARD_ALPHA = 700, /* of an operation; _BETA to _Y follow in order */
    ATTR_FORWARD_BETA,
    ATTR_FORWARD_CONV_DESC,
    ATTR_FORWARD_W,
    ATTR_FORWARD_X,
    ATTR_FORWARD_Y,
    ATTR_DATA_ALPHA,
    ATTR_DATA_BETA,
    ATTR_DATA_CONV_DESC,
    ATTR_DATA_W,
    ATTR_DATA_DX,
    ATTR_DATA_DY,
    ATTR_FILTER_ALPHA,
    ATTR_FILTER_BETA,
    ATTR_FILTER_CONV_DESC,
    ATTR_FILTER_DW,
    ATTR_FILTER_X,
    ATTR_FILTER_DY,
    ATTR_OPERATION_POINTWISE_PW = 750,
    ATTR_OPERATION_POINTWISE_X = 751,
    ATTR_OPERATION_POINTWISE_B = 752,
    ATTR_OPERATION_POINTWISE_Y = 753,
    ATTR_OPERATION_POINTWISE_ALPHA1 = 754,
    ATTR_OPERATION_POINTWISE_ALPHA2 = 755,
    ATTR_OPERATIONGRAPH_OPS = 801,
    ATTR_TENSOR_BYTE_ALIGNMENT = 900,
    ATTR_TENSOR_DATA_TYPE = 901,
    ATTR_TENSOR_DIMENSIONS = 902,
    ATTR_TENSOR_STRIDES = 903,
    ATTR_TENSOR_UNIQUE_ID = 906,
    ATTR_TENSOR_IS_VIRTUAL = 907,
    ATTR_TENSOR_IS_BY_VALUE = 908,
    ATTR_ENGINE_OPERATION_GRAPH = 1300,
    ATTR_ENGINE_GLOBAL_INDEX = 1301,
    ATTR_ENGINE_NUMERICAL_NOTE = 1303,
    ATTR_ENGINE_DEVICEPROP = 1307,
    ATTR_MATMUL_COMP_TYPE = 1500,
    ATTR_OPERATION_MATMUL_A = 1520,
    ATTR_OPERATION_MATMUL_B = 1521,
    ATTR_OPERATION_MATMUL_C = 1522,
    ATTR_OPERATION_MATMUL_DESC = 1523,
    ATTR_REDUCTION_OPERATOR = 1600,
    ATTR_REDUCTION_COMP_TYPE = 1601,
    ATTR_REDUCTION_IS_DETERMINISTIC = 1602,
    ATTR_OPERATION_REDUCTION_X = 1610,
    ATTR_OPERATION_REDUCTION_Y = 1611,
    ATTR_OPERATION_REDUCTION_DESC = 1612,
    ATTR_OPERATION_RESHAPE_X = 2200,
    ATTR_OPERATION_RESHAPE_Y = 2201,
    ATTR_OPERATION_RESHAPE_MODE = 2202,
    ATTR_DEVICEPROP_JSON_REPRESENTATION = 2702,
    ATTR_SDPA_FORWARD_Q = 2800,
    ATTR_SDPA_FORWARD_K = 2801,
    ATTR_SDPA_FORWARD_V = 2802,
    ATTR_SDPA_FORWARD_O = 2803,
    ATTR_SDPA_FORWARD_SCALE = 2805,
    ATTR_SDPA_FORWARD_SUBGRAPH = 2811,
    ATTR_SDPA_FORWARD_SUBGRAPH_INPUT_UID = 2812,
    ATTR_SDPA_FORWARD_SUBGRAPH_OUTPUT_UID = 2813,
    ATTR_SDPA_FORWARD_SOFTMAX = 2814,
    ATTR_DIAGONAL_BAND_MASK_X = 3000,
    ATTR_DIAGONAL_BAND_MASK_B = 3005,
    ATTR_DIAGONAL_BAND_MASK_Y = 3006,
    ATTR_DIAGONAL_BAND_MASK_COMPARISON_MODE = 3007,
    ATTR_OPERATION_SOFTMAX_X = 3100,
    ATTR_OPERATION_SOFTMAX_Y = 3101,
    ATTR_OPERATION_SOFTMAX_STATS = 3102,
};

enum backend_type {
    TYPE_DATA_TYPE = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INT64 = 3,
    TYPE_FLOAT = 4,
    TYPE_DOUBLE = 5,
    TYPE_CONVOLUTION_MODE = 7,
    TYPE_HEUR_MODE = 8,
    TYPE_KNOB_TYPE = 9,
    TYPE_NUMERICAL_NOTE = 11,
    TYPE_POINTWISE_MODE = 14,
    TYPE_BACKEND_DESCRIPTOR = 15,
    TYPE_REDUCTION_OPERATOR = 18,
    TYPE_CHAR = 24,
    TYPE_RESHAPE_MODE = 31,
};

enum backend_data_type { DATA_FLOAT = 0, DATA_DOUBLE = 1, DATA_HALF = 2, DATA_BFLOAT16 = 9 };
enum backend_heur_mode { HEUR_INSTANT = 0, HEUR_FALLBACK = 2, HEUR_A = 3 };
enum backend_pointwise {
    POINTWISE_ADD = 0,
    POINTWISE_MUL = 1,
    POINTWISE_SUB = 9,
    POINTWISE_EXP = 13,
    POINTWISE_IDENTITY = 21,
    POINTWISE_GREATER_OR_EQUAL = 303,
};
enum { REDUCE_ADD = 0, RESHAPE_VIEW_ONLY = 0 };
enum backend_knob {
    KNOB_STAGES = 14,
    KNOB_KERNEL_CFG = 24,
    KNOB_TILE_CGA_M = 27,
    KNOB_STREAM_K = 38,
    KNOB_TILE_M = 40,
    KNOB_TILE_N = 41,
};
enum { MODE_CROSS_CORRELATION = 1 };
enum { NOTE_DOWN_CONVERT_INPUTS = 1, NOTE_COUNT = 10 };

typedef void *backend_desc;

/* struct backend - the library's functions, by the names without "cudnn" */
struct backend {
    size_t (*version)(void);                               /* GetVersion */
    void (*last_error)(char *message, size_t size);        /* GetLastErrorString */
    int (*create)(int descriptor_type, backend_desc *ret); /* BackendCreateDescriptor */
    int (*destroy)(backend_desc descriptor);
    int (*finalize)(backend_desc descriptor);
    int (*set)(backend_desc descriptor, int name, int type, int64_t count, const void *elements);
    int (*get)(backend_desc descriptor,
               int name,
               int type,
               int64_t requested,
               int64_t *ret_count,
               void *elements);
};

#endif
