// The calls under their own names, for programs that are linked with the driver's library.

#include "intercept/exported.hpp"

LANESCOPE_EXPORTED_CUDA
LANESCOPE_EXPORTED_2(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
LANESCOPE_EXPORTED_2(cuMemcpyDtoDAsync_v2, _ptsz,
                     (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
LANESCOPE_EXPORTED_2(cuMemcpyPeer, _ptds,
                     (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e),
                     (a, b, c, d, e))
LANESCOPE_EXPORTED_2(cuMemcpyPeerAsync, _ptsz,
                     (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e, CUstream f),
                     (a, b, c, d, e, f))
LANESCOPE_EXPORTED_2(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* a), (a))
LANESCOPE_EXPORTED_2(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* a), (a))
LANESCOPE_EXPORTED_2(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* a, CUstream b), (a, b))
LANESCOPE_EXPORTED_2(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* a), (a))
LANESCOPE_EXPORTED_2(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* a, CUstream b), (a, b))
LANESCOPE_EXPORTED_2(cuMemcpyBatchAsync_v2, _ptsz,
                     (CUdeviceptr * a, CUdeviceptr* b, size_t* c, size_t d, CUmemcpyAttributes* e,
                      size_t* f, size_t g, CUstream h),
                     (a, b, c, d, e, f, g, h))
#undef cuMemcpyBatchAsync  // CUDA 12.8's form of it, which has no number
LANESCOPE_EXPORTED_2(cuMemcpyBatchAsync, _ptsz,
                     (CUdeviceptr * a, CUdeviceptr* b, size_t* c, size_t d, CUmemcpyAttributes* e,
                      size_t* f, size_t g, size_t* h, CUstream i),
                     (a, b, c, d, e, f, g, h, i))
LANESCOPE_EXPORTED_2(cuGraphLaunch, _ptsz, (CUgraphExec a, CUstream b), (a, b))
