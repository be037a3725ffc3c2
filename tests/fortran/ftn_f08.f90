! mpi_f08: real(4), real(8), integer and MPI_IN_PLACE.
program ftn_f08
    use mpi_f08
    implicit none
    character(*), parameter :: module_name = 'mpi_f08'
    include 'ftn_sums.inc'
end program ftn_f08
