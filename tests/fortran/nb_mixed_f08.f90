! nb_mixed_f08 nonblocking|blocking: the rank through mpi_f08 of a job of several languages. See nb_mixed.c.
program nb_mixed_f08
    use mpi_f08
    implicit none
    integer, parameter :: n = 2048, steps = 20, calls = 5
    real(4), asynchronous :: in(n, calls), out(n, calls)
    type(MPI_Request) :: request(3)
    integer :: rank, nranks, step, k, token, bad, allbad
    character(len=16) :: first
    logical :: done

    call get_command_argument(1, first)
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
    bad = 0
    if (first == 'blocking') then
        call fill(0)
        call MPI_Allreduce(in(:, 1), out(:, 1), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
        bad = bad + wrong(0, 1)
    end if
    do step = 1, steps
        call fill(step)
        call start(1, request(1))
        call start(2, request(2))
        call MPI_Allreduce(in(:, 3), out(:, 3), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
        call start(4, request(3))
        call MPI_Waitall(3, request, MPI_STATUSES_IGNORE)
        do k = 1, 3
            if (request(k) /= MPI_REQUEST_NULL) bad = bad + 1
        end do
        call start(5, request(1))
        if (rank == 0) then
            call MPI_Recv(token, 1, MPI_INTEGER, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
            if (token /= -step) bad = bad + 1
        end if
        done = .false.
        do while (.not. done)
            call MPI_Request_get_status(request(1), done, MPI_STATUS_IGNORE)
        end do
        call MPI_Wait(request(1), MPI_STATUS_IGNORE)
        if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(out)
        if (rank == 2) then
            token = -step
            call MPI_Send(token, 1, MPI_INTEGER, 0, 5, MPI_COMM_WORLD)
        end if
        bad = bad + wrong(step, calls)
    end do
    call MPI_Reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    if (rank == 0) then
        if (allbad == 0) then
            print '(a)', 'ok 1 - sums of a job of several languages, rank 0 through use mpi_f08'
        else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong entries, tokens or requests'
        end if
        print '(a)', '1..1'
    end if
    call MPI_Finalize()
    if (rank == 0 .and. allbad /= 0) stop 1
contains
    include 'nb_mixed.inc'

    subroutine start(j, posted)
        integer, intent(in) :: j
        type(MPI_Request), intent(out) :: posted
        call MPI_Iallreduce(in(:, j), out(:, j), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, posted)
    end subroutine start
end program nb_mixed_f08
