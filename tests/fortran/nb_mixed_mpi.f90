! nb_mixed_mpi nonblocking|blocking: the rank through use mpi of a job of several languages. See nb_mixed.c.
program nb_mixed_mpi
    use mpi
    implicit none
    integer, parameter :: n = 2048, steps = 20, calls = 5
    real(4), asynchronous :: in(n, calls), out(n, calls)
    integer :: request(3), rank, nranks, step, k, token, bad, allbad, ierr
    character(len=16) :: first
    logical :: done

    call get_command_argument(1, first)
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
    bad = 0
    if (first == 'blocking') then
        call fill(0)
        call MPI_Allreduce(in(1, 1), out(1, 1), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
        bad = bad + wrong(0, 1)
    end if
    do step = 1, steps
        call fill(step)
        call start(1, request(1))
        call start(2, request(2))
        call MPI_Allreduce(in(1, 3), out(1, 3), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
        call start(4, request(3))
        do k = 3, 1, -1
            call MPI_Wait(request(k), MPI_STATUS_IGNORE, ierr)
        end do
        if (any(request /= MPI_REQUEST_NULL)) bad = bad + 1
        call start(5, request(1))
        if (rank == 0) then
            call MPI_Recv(token, 1, MPI_INTEGER, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
            if (token /= -step) bad = bad + 1
        end if
        done = .false.
        do while (.not. done)
            call MPI_Test(request(1), done, MPI_STATUS_IGNORE, ierr)
        end do
        if (rank == 2) then
            token = -step
            call MPI_Send(token, 1, MPI_INTEGER, 0, 5, MPI_COMM_WORLD, ierr)
        end if
        bad = bad + wrong(step, calls)
    end do
    call MPI_Reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) then
        if (allbad == 0) then
            print '(a)', 'ok 1 - sums of a job of several languages, rank 0 through use mpi'
        else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong entries, tokens or requests'
        end if
        print '(a)', '1..1'
    end if
    call MPI_Finalize(ierr)
    if (rank == 0 .and. allbad /= 0) stop 1
contains
    include 'nb_mixed.inc'

    subroutine start(j, posted)
        integer, intent(in) :: j
        integer, intent(out) :: posted
        call MPI_Iallreduce(in(1, j), out(1, j), n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, posted, ierr)
    end subroutine start
end program nb_mixed_mpi
