! nb_order_f08 [times]: an operation moves while its rank waits in MPI_Recv, through mpi_f08.
!
! Rank 0: Iallreduce; Recv from rank 2; Wait. Rank 2: Iallreduce; Wait; Send to rank 0.
! Others: Iallreduce; Wait. Sums of whole numbers are exact.
program nb_order_f08
    use mpi_f08
    implicit none
    integer, parameter :: n = 2048
    real(4), asynchronous :: in(n), out(n)
    real(4) :: want
    type(MPI_Request) :: request
    integer :: times, step, rank, nranks, i, token, bad, allbad
    character(len=16) :: text

    times = 200
    if (command_argument_count() > 0) then
        call get_command_argument(1, text)
        read (text, *) times
    end if
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
    if (nranks < 3) then
        print '(a)', 'nb_order_f08 needs 3 ranks'
        call MPI_Abort(MPI_COMM_WORLD, 2)
    end if
    bad = 0
    do step = 1, times
        do i = 1, n
            in(i) = merge(real(i + rank + step, 4), 0.0, mod(i, 50) == mod(step, 50))
        end do
        out = -7
        call MPI_Iallreduce(in, out, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request)
        if (rank == 0) then
            call MPI_Recv(token, 1, MPI_INTEGER, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
            if (token /= step) bad = bad + 1
        end if
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(out)
        if (request /= MPI_REQUEST_NULL) bad = bad + 1
        if (rank == 2) then
            token = step
            call MPI_Send(token, 1, MPI_INTEGER, 0, 5, MPI_COMM_WORLD)
        end if
        do i = 1, n
            want = merge(real(nranks * (i + step) + nranks * (nranks - 1) / 2, 4), 0.0, &
                mod(i, 50) == mod(step, 50))
            if (out(i) /= want) bad = bad + 1
        end do
    end do
    call MPI_Reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    if (rank == 0) then
        if (allbad == 0) then
            print '(a,i0,a)', 'ok 1 - ', times, ' times, use mpi_f08: sums arrive while a rank is in Recv'
        else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong elements, tokens or requests'
        end if
        print '(a)', '1..1'
    end if
    call MPI_Finalize()
    if (rank == 0 .and. allbad /= 0) stop 1
end program nb_order_f08
