! mpi: real(4), real(8), integer and MPI_IN_PLACE.
program ftn_mpi
    use mpi
    implicit none
    integer, parameter :: n = 4096
    real(4) :: a(n), b(n)
    real(8) :: c(n), d(n)
    integer(4) :: k(n), l(n)
    integer(8) :: m(n)
    integer :: ierr, rank, nranks, i, step, bad, allbad, whole

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
    bad = 0
    do step = 1, 3
        do i = 1, n
            k(i) = merge(i + rank, 0, mod(i, 50) == step)
        end do
        a = real(k, 4)
        c = real(k, 8)
        m = int(k, 8)
        b = -7
        d = -7
        l = -7
        call MPI_Allreduce(a, b, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(c, d, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(k, l, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(MPI_IN_PLACE, a, n, MPI_REAL4, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(MPI_IN_PLACE, c, n, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(MPI_IN_PLACE, k, n, MPI_INTEGER4, MPI_SUM, MPI_COMM_WORLD, ierr)
        call MPI_Allreduce(MPI_IN_PLACE, m, n, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierr)
        do i = 1, n
            whole = merge(nranks * i + nranks * (nranks - 1) / 2, 0, mod(i, 50) == step)
            if (a(i) /= real(whole, 4) .or. b(i) /= real(whole, 4)) bad = bad + 1
            if (c(i) /= real(whole, 8) .or. d(i) /= real(whole, 8)) bad = bad + 1
            if (k(i) /= whole .or. l(i) /= whole .or. m(i) /= whole) bad = bad + 1
        end do
    end do
    call MPI_Reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) then
        if (allbad == 0) then
            print '(a)', 'ok 1 - sums through use mpi'
        else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong elements'
        end if
        print '(a)', '1..1'
    end if
    call MPI_Finalize(ierr)
    if (rank == 0 .and. allbad /= 0) stop 1
end program ftn_mpi
