/* Preloaded: an MPI library that says it takes CUDA's memory. */
int MPIX_GPU_query_support(int kind, int *is_supported);

int MPIX_GPU_query_support(int kind, int *is_supported)
{
    *is_supported = kind == 0;
    return 0;
}
