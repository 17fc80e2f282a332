// Marks for element-level functions that the scalar code, other instruction sets and GPU kernels share.
#pragma once

/// Callable from kernels too where nvcc compiles; nothing elsewhere.
#ifdef __CUDACC__
#define LYNX_HOST_DEVICE __host__ __device__
#else
#define LYNX_HOST_DEVICE
#endif

// No out-of-line copy may exist: files compiled for a newer instruction set include these headers too.
#define LYNX_ALWAYS_INLINE [[gnu::always_inline]] inline
