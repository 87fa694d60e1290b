// calib/kernels.cu - the microkernels of `plimsoll calibrate`
//
// Compiled by nvcc for compute capability 7.5 and up into one image, which the program carries and the driver loads. What they compute
// is right (the products are products) but of no use: only the time counts. Streaming kernels move 16 bytes a thread and step; the matrix
// products work on tiles in shared memory, by tensor cores where there are any. They are plain kernels, so a rate here is a lower bound of
// what a tuned library reaches.
//
// Sizes: bytes are multiples of 16; m and n of 128, k of 32. Matrices are row by row; plimsoll_gemm_fp8 takes b transposed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#if defined(__CUDA_ARCH__)
#define ARCH __CUDA_ARCH__
#else
#define ARCH 0
#endif

typedef unsigned long long bytes64;

// ------------------------------------------------------------------ streaming

extern "C" __global__ void plimsoll_empty()
{
}

extern "C" __global__ void plimsoll_copy(void *to, const void *from, bytes64 bytes)
{
    const bytes64 step = (bytes64)gridDim.x * blockDim.x;

    for (bytes64 i = (bytes64)blockIdx.x * blockDim.x + threadIdx.x; i < bytes / 16; i += step)
        static_cast<float4 *>(to)[i] = static_cast<const float4 *>(from)[i];
}

extern "C" __global__ void plimsoll_scale(void *to, const void *from, bytes64 bytes)
{
    const bytes64 step = (bytes64)gridDim.x * blockDim.x;

    for (bytes64 i = (bytes64)blockIdx.x * blockDim.x + threadIdx.x; i < bytes / 16; i += step) {
        float4 v = static_cast<const float4 *>(from)[i];

        v.x *= 3.0f;
        v.y *= 3.0f;
        v.z *= 3.0f;
        v.w *= 3.0f;
        static_cast<float4 *>(to)[i] = v;
    }
}

// ------------------------------------------------------------------ products: a block has 256 threads and makes 128 x 128 of c

enum { TILE = 128, THREADS = 256, WARPS_M = 2, WARPS_N = 4 }; // a warp makes 64 x 32

// Copies ROWS x COLUMNS elements from rows of `stride` elements into shared memory with rows of `padded`.
template <int ROWS, int COLUMNS, typename T>
__device__ void load_tile(T *to, int padded, const T *from, size_t stride)
{
    constexpr int PER = 16 / sizeof(T); // elements of a 16-byte load

    for (int i = threadIdx.x; i < ROWS * COLUMNS / PER; i += THREADS) {
        const int row = i / (COLUMNS / PER), column = i % (COLUMNS / PER) * PER;

        *reinterpret_cast<float4 *>(to + row * padded + column) =
            *reinterpret_cast<const float4 *>(from + row * stride + column);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    plimsoll_gemm_fp32(void *c, const void *a, const void *b, int m, int n, int k)
{
    constexpr int DEPTH = 16;
    __shared__ __align__(16) float as[TILE * (DEPTH + 4)], bs[DEPTH * (TILE + 4)];
    const float *from_a = static_cast<const float *>(a) + (size_t)blockIdx.y * TILE * k;
    const float *from_b = static_cast<const float *>(b) + (size_t)blockIdx.x * TILE;
    const int row = threadIdx.x / 16 * 8, column = threadIdx.x % 16 * 8; // 8 x 8 a thread
    float sum[8][8] = {};

    for (int at = 0; at < k; at += DEPTH) {
        load_tile<TILE, DEPTH>(as, DEPTH + 4, from_a + at, k);
        load_tile<DEPTH, TILE>(bs, TILE + 4, from_b + (size_t)at * n, n);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[i][j] += as[(row + i) * (DEPTH + 4) + d] * bs[d * (TILE + 4) + column + j];
        __syncthreads();
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            static_cast<float *>(c)[((size_t)blockIdx.y * TILE + row + i) * n + blockIdx.x * TILE +
                                    column + j] = sum[i][j];
}

// What a tensor core multiplies: T in memory, F in fragments of 16 x 16 x K.
template <typename T, typename F, int K> __device__ void gemm_wmma(float *c, const T *a, const T *b, int n, int k)
{
    using namespace nvcuda;
    constexpr int DEPTH = 32, PAD = 16 / sizeof(T), A_ROW = DEPTH + PAD, B_ROW = TILE + PAD;
    __shared__ __align__(32) T as[TILE * A_ROW];
    __shared__ __align__(32) T bs[DEPTH * B_ROW];
    const T *from_a = a + (size_t)blockIdx.y * TILE * k, *from_b = b + (size_t)blockIdx.x * TILE;
    const int warp = threadIdx.x / 32, row = warp / WARPS_N * 64, column = warp % WARPS_N * 32;
    wmma::fragment<wmma::accumulator, 16, 16, K, float> sum[4][2];

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(sum[i][j], 0.0f);
    for (int at = 0; at < k; at += DEPTH) {
        load_tile<TILE, DEPTH>(as, A_ROW, from_a + at, k);
        load_tile<DEPTH, TILE>(bs, B_ROW, from_b + (size_t)at * n, n);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d += K) {
            wmma::fragment<wmma::matrix_a, 16, 16, K, F, wmma::row_major> fa[4];
            wmma::fragment<wmma::matrix_b, 16, 16, K, F, wmma::row_major> fb[2];

#pragma unroll
            for (int i = 0; i < 4; i++)
                wmma::load_matrix_sync(fa[i], as + (row + 16 * i) * A_ROW + d, A_ROW);
#pragma unroll
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(fb[j], bs + d * B_ROW + column + 16 * j, B_ROW);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(c + ((size_t)blockIdx.y * TILE + row + 16 * i) * n + blockIdx.x * TILE +
                                        column + 16 * j,
                                    sum[i][j], n, wmma::mem_row_major);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    plimsoll_gemm_fp16(void *c, const void *a, const void *b, int, int n, int k)
{
    gemm_wmma<__half, __half, 16>(static_cast<float *>(c), static_cast<const __half *>(a),
                                  static_cast<const __half *>(b), n, k);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    plimsoll_gemm_bf16(void *c, const void *a, const void *b, int, int n, int k)
{
#if ARCH >= 800 // the program asks no older GPU for it
    gemm_wmma<__nv_bfloat16, __nv_bfloat16, 16>(static_cast<float *>(c), static_cast<const __nv_bfloat16 *>(a),
                                                static_cast<const __nv_bfloat16 *>(b), n, k);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    plimsoll_gemm_tf32(void *c, const void *a, const void *b, int, int n, int k)
{
#if ARCH >= 800
    gemm_wmma<float, nvcuda::wmma::precision::tf32, 8>(static_cast<float *>(c), static_cast<const float *>(a),
                                                       static_cast<const float *>(b), n, k);
#endif
}

// mma.m16n8k32 with e4m3: a thread has 4 words of a, 2 of b and 4 sums; lane = 4 * group + in. b is [n, k].
extern "C" __global__ void __launch_bounds__(THREADS)
    plimsoll_gemm_fp8(void *c, const void *a, const void *b, int, int n, int k)
{
#if ARCH >= 890
    constexpr int DEPTH = 32, ROW = DEPTH + 16; // bytes
    __shared__ __align__(16) unsigned char as[TILE * ROW], bs[TILE * ROW];
    const unsigned char *from_a = static_cast<const unsigned char *>(a) + (size_t)blockIdx.y * TILE * k;
    const unsigned char *from_b = static_cast<const unsigned char *>(b) + (size_t)blockIdx.x * TILE * k;
    const int warp = threadIdx.x / 32, row = warp / WARPS_N * 64, column = warp % WARPS_N * 32;
    const int group = threadIdx.x % 32 / 4, in = threadIdx.x % 4;
    float sum[4][4][4] = {}; // 4 tiles of 16 rows, 4 of 8 columns

    for (int at = 0; at < k; at += DEPTH) {
        unsigned fa[4][4], fb[4][2];

        load_tile<TILE, DEPTH>(as, ROW, from_a + at, k);
        load_tile<TILE, DEPTH>(bs, ROW, from_b + at, k);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int w = 0; w < 4; w++)
                fa[i][w] = *reinterpret_cast<const unsigned *>(
                    as + (row + 16 * i + group + w % 2 * 8) * ROW + w / 2 * 16 + in * 4);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int w = 0; w < 2; w++)
                fb[j][w] = *reinterpret_cast<const unsigned *>(bs + (column + 8 * j + group) * ROW +
                                                               w * 16 + in * 4);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                             : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]),
                               "r"(fb[j][1]));
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int w = 0; w < 4; w++)
                static_cast<float *>(c)[((size_t)blockIdx.y * TILE + row + 16 * i + group + w / 2 * 8) * n +
                                        blockIdx.x * TILE + column + 8 * j + in * 2 + w % 2] = sum[i][j][w];
#endif
}
