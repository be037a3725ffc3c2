! mpi: MPI_Iallreduce with Wait, Waitall and Test, in place too.
program nb_mpi
    use mpi
    implicit none
    integer, parameter :: n = 4096
    real(4), asynchronous :: a(n), b(n)
    real(8), asynchronous :: c(n), d(n)
    integer(4), asynchronous :: k(n), l(n)
    integer :: requests(3), statuses(MPI_STATUS_SIZE, 3)
    integer :: ierr, rank, nranks, i, step, bad, allbad, whole
    logical :: flag

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
    bad = 0
    do step = 1, 4
        do i = 1, n
            k(i) = merge(i + rank, 0, mod(i, 50) == step)
        end do
        a = real(k, 4)
        c = real(k, 8)
        b = -7
        d = -7
        l = -7
        call MPI_Iallreduce(a, b, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(1), ierr)
        call MPI_Iallreduce(c, d, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(2), ierr)
        call MPI_Iallreduce(k, l, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(3), ierr)
        call MPI_Waitall(3, requests, statuses, ierr)
        if (any(requests /= MPI_REQUEST_NULL)) bad = bad + 1
        call MPI_Iallreduce(MPI_IN_PLACE, a, n, MPI_REAL4, MPI_SUM, MPI_COMM_WORLD, requests(1), ierr)
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
        call MPI_Iallreduce(MPI_IN_PLACE, c, n, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, requests(2), ierr)
        flag = .false.
        do while (.not. flag)
            call MPI_Test(requests(2), flag, MPI_STATUS_IGNORE, ierr)
        end do
        do i = 1, n
            whole = merge(nranks * i + nranks * (nranks - 1) / 2, 0, mod(i, 50) == step)
            if (a(i) /= real(whole, 4) .or. b(i) /= real(whole, 4)) bad = bad + 1
            if (c(i) /= real(whole, 8) .or. d(i) /= real(whole, 8)) bad = bad + 1
            if (l(i) /= whole) bad = bad + 1
        end do
    end do
    call MPI_Reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) then
        if (allbad == 0) then
            print '(a)', 'ok 1 - nonblocking sums through use mpi'
        else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong elements or requests'
        end if
        print '(a)', '1..1'
    end if
    call MPI_Finalize(ierr)
    if (rank == 0 .and. allbad /= 0) stop 1
end program nb_mpi
