! mpi: real(4), real(8), integer and MPI_IN_PLACE.
program ftn_mpi
    use mpi
    implicit none
    character(*), parameter :: module_name = 'mpi'
    include 'ftn_sums.inc'
end program ftn_mpi
