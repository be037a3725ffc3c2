/* The functions of the CUDA driver that are used, in the library that the program has loaded: found
 * by name, with the versions that their names have had since CUDA 12. No header and no library of
 * CUDA is needed for that; where cuda.h comes first its types are taken, so that a test can hold
 * these declarations against it. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#define GPU_DRIVER_CONSTANTS(X)                                                                    \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                               \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                 \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                              \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                               \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                             \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                           \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                              \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                   \
    X(CUDA_ERROR_NOT_READY, 600)                                                                   \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                             \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                     \
    X(CUDA_ERROR_UNKNOWN, 999)                                                                     \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                     \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                             \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                           \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                   \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                  \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                 \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                                           \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)

#ifndef CUDA_VERSION
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef int CUpointer_attribute;
typedef int CUstreamCaptureMode;
typedef int CUstreamCaptureStatus;

#define GPU_ENUMERATOR(name, value) name = value,
enum { GPU_DRIVER_CONSTANTS(GPU_ENUMERATOR) };
#undef GPU_ENUMERATOR
#define CU_STREAM_LEGACY ((CUstream)0x1)
#endif

/* X(member, name in the library, parameters) */
#define GPU_DRIVER(X)                                                                              \
    X(version, cuDriverGetVersion, (int *))                                                        \
    X(error_name, cuGetErrorName, (CUresult, const char **))                                       \
    X(device, cuDeviceGet, (CUdevice *, int))                                                      \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *, CUdevice))                                    \
    X(device_name, cuDeviceGetName, (char *, int, CUdevice))                                       \
    X(primary_retain, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                           \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (CUdevice))                                   \
    X(context_push, cuCtxPushCurrent_v2, (CUcontext))                                              \
    X(context_pop, cuCtxPopCurrent_v2, (CUcontext *))                                              \
    X(context_device, cuCtxGetDevice, (CUdevice *))                                                \
    X(pointer, cuPointerGetAttributes, (unsigned, CUpointer_attribute *, void **, CUdeviceptr))    \
    X(module_load, cuModuleLoadData, (CUmodule *, const void *))                                   \
    X(module_unload, cuModuleUnload, (CUmodule))                                                   \
    X(function, cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                       \
    X(launch, cuLaunchKernel,                                                                      \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
       void **, void **))                                                                          \
    X(memory_make, cuMemAlloc_v2, (CUdeviceptr *, size_t))                                         \
    X(memory_free, cuMemFree_v2, (CUdeviceptr))                                                    \
    X(pinned_make, cuMemHostAlloc, (void **, size_t, unsigned))                                    \
    X(pinned_free, cuMemFreeHost, (void *))                                                        \
    X(upload, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                 \
    X(download, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                     \
    X(copy, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                    \
    X(fill, cuMemsetD32Async, (CUdeviceptr, unsigned, size_t, CUstream))                           \
    X(stream_make, cuStreamCreate, (CUstream *, unsigned))                                         \
    X(stream_free, cuStreamDestroy_v2, (CUstream))                                                 \
    X(stream_wait, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                               \
    X(stream_finish, cuStreamSynchronize, (CUstream))                                              \
    X(stream_capturing, cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))                  \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))                    \
    X(event_make, cuEventCreate, (CUevent *, unsigned))                                            \
    X(event_free, cuEventDestroy_v2, (CUevent))                                                    \
    X(event_record, cuEventRecord, (CUevent, CUstream))                                            \
    X(event_query, cuEventQuery, (CUevent))

struct gpu_driver {
#define GPU_MEMBER(member, name, parameters) CUresult(*member) parameters;
    GPU_DRIVER(GPU_MEMBER)
#undef GPU_MEMBER
};

/* `library`: a handle of the libcuda that the program uses. NULL, or the name of a function that it
 * lacks. */
const char *gpu_driver_find(struct gpu_driver *driver, void *library);

/* The name that the driver has for an error. */
const char *gpu_error_name(const struct gpu_driver *driver, CUresult error);

#endif
