! edge_f08 CASE: levels, lists, handler, abort, operator: as in tests/mpi/harmless/edge_*.c, by mpi_f08.
module edge
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: count = 70000
    integer :: rank, ranks, handled = 0, called = 0, away = 0
    integer(c_long) :: self
    real, asynchronous :: a(count), b(count)

    interface
        function pthread_self() bind(C)
            import :: c_long
            integer(c_long) :: pthread_self
        end function
    end interface

contains

    subroutine say(what, value)
        character(*), intent(in) :: what
        integer, intent(in) :: value
        write (*, '(a,i0,a,a,1x,i0)') '[', rank, '] ', what, value
        flush (6)
    end subroutine

    subroutine fill()
        integer :: i
        a = 0
        do i = 1, count, 16
            a(i) = real(mod(i, 13) + rank)
        end do
        b = -1
    end subroutine

    integer function wrong()
        integer :: i
        wrong = 0
        do i = 1, count
            if (mod(i, 16) == 1) then
                if (b(i) /= real(ranks * mod(i, 13) + ranks * (ranks - 1) / 2)) wrong = wrong + 1
            else
                if (b(i) /= 0) wrong = wrong + 1
            end if
        end do
    end function

    subroutine sums()
        type(MPI_Request) :: request
        integer :: turn
        do turn = 1, 3
            call fill()
            call MPI_Allreduce(a, b, count, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
            call say('wrong in a sum:', wrong())
        end do
        call fill()
        call MPI_Iallreduce(a, b, count, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request)
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        call say('wrong in a nonblocking sum:', wrong())
    end subroutine

    subroutine counts_errors(comm, code)
        type(MPI_Comm) :: comm
        integer :: code
        handled = handled + 1
    end subroutine

    subroutine aborts(comm, code)
        type(MPI_Comm) :: comm
        integer :: code
        call MPI_Abort(comm, 7)
    end subroutine

    subroutine add(invec, inoutvec, length, datatype)
        type(c_ptr), value :: invec, inoutvec
        integer :: length
        type(MPI_Datatype) :: datatype
        double precision, pointer :: x(:), y(:)
        call c_f_pointer(invec, x, [length])
        call c_f_pointer(inoutvec, y, [length])
        called = called + 1
        if (pthread_self() /= self) away = away + 1
        y = x + y
    end subroutine

    subroutine operators()
        type(MPI_Op) :: op
        type(MPI_Request) :: requests(2)
        double precision, asynchronous, allocatable :: x(:), y(:)
        integer :: turn, bad
        allocate (x(160000), y(160000))
        self = pthread_self()
        bad = 0
        call MPI_Op_create(add, .true., op)
        do turn = 1, 20
            x = rank + 1
            y = -1
            call fill()
            call MPI_Iallreduce(a, b, count, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(1))
            call MPI_Iallreduce(x, y, size(x), MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD, requests(2))
            call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
            call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
            bad = bad + wrong() + merge(0, 1, all(y == ranks * (ranks + 1) / 2))
        end do
        call MPI_Op_free(op)
        call say('wrong with an operator:', bad)
        call say('operators in another thread:', away)
    end subroutine

    subroutine lists()
        type(MPI_Request) :: request
        type(MPI_Comm) :: comm
        integer, allocatable, asynchronous :: counts(:), displs(:)
        real, allocatable, asynchronous :: everything(:)
        integer :: turn, r, bad
        allocate (everything(count * ranks))
        bad = 0
        do turn = 1, 6
            call MPI_Comm_dup(MPI_COMM_WORLD, comm)
            allocate (counts(ranks), displs(ranks))
            counts = count
            displs = [(r * count, r=0, ranks - 1)]
            call fill()
            everything = -1
            call MPI_Iallgatherv(a, count, MPI_REAL, everything, counts, displs, MPI_REAL, comm, request)
            counts = 1234567890
            displs = 1234567890
            deallocate (counts, displs)
            call MPI_Wait(request, MPI_STATUS_IGNORE)
            do r = 0, ranks - 1
                if (everything(r * count + 1) /= real(1 + r)) bad = bad + 1
                if (everything((r + 1) * count) /= a(count) .and. a(count) == 0) bad = bad + 1
            end do
            call MPI_Comm_free(comm)
        end do
        call say('wrong in gathers:', bad)
    end subroutine
end module

program edge_f08
    use edge
    implicit none
    character(32) :: which, asked
    type(MPI_Errhandler) :: handler, got
    integer :: provided, level, i, x, ierror

    call get_command_argument(1, which)
    call get_command_argument(2, asked)
    provided = -1
    if (asked == 'init' .or. asked == '') then
        call MPI_Init()
    else
        read (asked, *) level
        call MPI_Init_thread(level, provided)
    end if
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Query_thread(level)
    call say('provided', provided)
    call say('queried', level)
    x = 0
    select case (which)
    case ('levels')
        call sums()
        call MPI_Query_thread(level)
        call say('queried', level)
    case ('lists')
        call lists()
    case ('operators')
        call operators()
    case ('handler')
        call MPI_Comm_create_errhandler(counts_errors, handler)
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler)
        do i = 1, 5
            call MPI_Send(x, 1, MPI_INTEGER, 4711, 0, MPI_COMM_WORLD, ierror)
            call MPI_Allreduce(a, a, count, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierror)
            call sums()
        end do
        call MPI_Comm_get_errhandler(MPI_COMM_WORLD, got)
        call say('handled', handled)
        call say('the same handler', merge(1, 0, got == handler))
    case ('abort')
        call MPI_Comm_create_errhandler(aborts, handler)
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler)
        call sums()
        call MPI_Barrier(MPI_COMM_WORLD)
        if (rank == 0) call MPI_Send(x, 1, MPI_INTEGER, 4711, 0, MPI_COMM_WORLD)
        call MPI_Recv(x, 1, MPI_INTEGER, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    end select
    call MPI_Finalize()
end program
