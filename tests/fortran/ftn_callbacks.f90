! Callbacks of Fortran while first exchanges and sparse calls are under way: how often each runs, and
! on which communicators. With an argument every sum is nonblocking.
module counted
    use mpi
    implicit none
    integer :: copies = 0, deletes = 0, applied = 0, strange = 0
    integer :: known(8) = -1, nknown = 0, keyval
    logical :: copying = .false., deleting = .false.
contains
    subroutine on_copy(comm, key, extra, in, out, flag, ierr)
        integer :: comm, key, ierr
        integer(MPI_ADDRESS_KIND) :: extra, in, out
        logical :: flag
        copies = copies + 1
        if (.not. copying .or. all(known(1:nknown) /= comm) .or. extra /= 17) strange = strange + 1
        out = in + 1
        flag = .true.
        ierr = MPI_SUCCESS
    end subroutine
    subroutine on_delete(comm, key, value, extra, ierr)
        integer :: comm, key, ierr
        integer(MPI_ADDRESS_KIND) :: value, extra
        deletes = deletes + 1
        if (.not. deleting) strange = strange + 1 ! Open MPI 4.1 may give another communicator
        ierr = MPI_SUCCESS
    end subroutine
    subroutine add(a, b, length, type)
        integer :: length, type
        integer :: a(length), b(length)
        applied = applied + 1
        b = a + b
    end subroutine
    subroutine know(comm)
        integer :: comm
        nknown = nknown + 1
        known(nknown) = comm
    end subroutine
end module

program ftn_callbacks
    use counted
    implicit none
    integer, parameter :: n = 4096
    integer, asynchronous :: a(n), b(n), c(n), d(n)
    integer :: ierr, rank, nranks, provided, one, two, op, i, bad = 0, nothing, requests(2)
    logical :: nonblocking

    nonblocking = command_argument_count() > 0
    call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
    call MPI_Comm_create_keyval(on_copy, on_delete, keyval, 17_MPI_ADDRESS_KIND, ierr)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, 5_MPI_ADDRESS_KIND, ierr)
    call know(MPI_COMM_WORLD)
    do i = 1, n
        a(i) = merge(i + rank, 0, mod(i, 50) == 7)
    end do
    call sums(MPI_COMM_WORLD, 4)
    copying = .true.
    call MPI_Comm_dup(MPI_COMM_WORLD, one, ierr)
    call know(one)
    copying = .false.
    call sums(one, 4)
    ! A communicator that is copied and freed while a sum is under way on the first.
    call start(one, MPI_SUM, d, requests(1))
    copying = .true.
    call MPI_Comm_dup(one, two, ierr)
    call know(two)
    copying = .false.
    call sums(two, 4)
    deleting = .true.
    call MPI_Comm_free(two, ierr)
    deleting = .false.
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    call check(d)
    ! An operator that is made and used while a sum is under way.
    call start(one, MPI_SUM, d, requests(1))
    call MPI_Op_create(add, .true., op, ierr)
    call start(one, op, c, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
    call check(d)
    call check(c)
    call MPI_Allreduce(a, c, n, MPI_INTEGER, op, one, ierr)
    call check(c)
    call MPI_Op_free(op, ierr)
    call sums(one, 4)
    deleting = .true.
    call MPI_Comm_free(one, ierr)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierr)
    deleting = .false.
    call MPI_Comm_free_keyval(keyval, ierr)
    nothing = copies * 100 + deletes * 10 + strange
    if (nothing /= 230) bad = bad + 1
    if (bad /= 0) print '(a,5(i0,1x))', '# wrong, copies, deletes, strange, rank: ', bad, copies, deletes, strange, rank
    call MPI_Reduce(bad, nothing, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
    if (rank == 0) then
        if (nothing == 0) print '(a)', 'ok 1 - callbacks of Fortran run for the calls of the program alone'
        if (nothing /= 0) print '(a)', 'not ok 1 - callbacks of Fortran run for the calls of the program alone'
        print '(a)', '1..1'
    end if
    call MPI_Finalize(ierr)
contains
    subroutine start(comm, with, out, request)
        integer :: comm, with, request
        integer, asynchronous :: out(n)
        out = -7
        call MPI_Iallreduce(a, out, n, MPI_INTEGER, with, comm, request, ierr)
    end subroutine
    subroutine sums(comm, calls)
        integer :: comm, calls, call_number, request
        do call_number = 1, calls
            if (nonblocking) then
                call start(comm, MPI_SUM, b, request)
                call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
            else
                call MPI_Allreduce(a, b, n, MPI_INTEGER, MPI_SUM, comm, ierr)
            end if
            call check(b)
        end do
    end subroutine
    subroutine check(out)
        integer, asynchronous :: out(n)
        integer :: k
        do k = 1, n
            if (out(k) /= merge(nranks * k + nranks * (nranks - 1) / 2, 0, mod(k, 50) == 7)) bad = bad + 1
        end do
    end subroutine
end program
