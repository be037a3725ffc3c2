! sum.f90: sums of which 1 % is not zero.
program sums
    use mpi_f08
    implicit none
    integer, parameter :: count = 1000000
    real :: mine(count), total(count)
    integer :: rank, step, ierr

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    mine = 0
    mine(rank + 1::100) = 1
    do step = 1, 20
        call MPI_Allreduce(mine, total, count, MPI_REAL, MPI_SUM, &
                           MPI_COMM_WORLD, ierr)
    end do
    if (rank == 0) print '(a,i0)', 'sum ', nint(sum(total))
    call MPI_Finalize(ierr)
end program sums
