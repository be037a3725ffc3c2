! mpi_f08: every collective that is served, blocking and nonblocking, with and without MPI_IN_PLACE,
! on MPI_COMM_WORLD and on a duplicate that is freed, and MPI_Pcontrol.
program ftn_kinds
    use mpi_f08
    implicit none
    integer, parameter :: n = 4096
    type(MPI_Comm) :: other
    integer :: rank, nranks, step, bad, allbad

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
    bad = 0
    do step = 1, 3
        call calls(MPI_COMM_WORLD)
        call MPI_Comm_dup(MPI_COMM_WORLD, other)
        call calls(other)
        call calls(other)
        call MPI_Comm_free(other)
        if (other /= MPI_COMM_NULL) bad = bad + 1
    end do
    call MPI_Pcontrol(0)
    call calls(MPI_COMM_WORLD)
    call MPI_Pcontrol(1)
    call MPI_Reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    if (rank == 0) then
        if (allbad == 0) then
            print '(a)', 'ok 1 - all collectives through use mpi_f08'
        else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong elements'
        end if
        print '(a)', '1..1'
    end if
    call MPI_Finalize()
    if (rank == 0 .and. allbad /= 0) stop 1

contains

    ! Element i of a rank's part; most are 0.
    elemental real function part(i, of)
        integer, intent(in) :: i, of
        part = merge(real(i + of), 0.0, mod(i, 50) == 7)
    end function

    subroutine count_wrong(found, i, whole)
        real, intent(in) :: found, whole
        integer, intent(in) :: i
        if (found /= whole) bad = bad + 1
        if (found /= whole .and. bad < 3) print '(a,i0,2f12.1)', '# element ', i, found, whole
    end subroutine

    real function sum_of(i)
        integer, intent(in) :: i
        integer :: r
        sum_of = 0
        do r = 0, nranks - 1
            sum_of = sum_of + part(i, r)
        end do
    end function

    subroutine calls(comm)
        type(MPI_Comm), intent(in) :: comm
        real, asynchronous, allocatable :: a(:), b(:), all(:), long(:)
        integer, allocatable, asynchronous :: counts(:), displs(:)
        type(MPI_Request) :: requests(3)
        integer :: i, r

        allocate (a(n), b(n), all(n * nranks), long(n * nranks), counts(nranks), displs(nranks))
        a = [(part(i, rank), i=1, n)]
        counts = n
        displs = [(n * (nranks - 1 - r), r=0, nranks - 1)]
        call MPI_Allreduce(a, b, n, MPI_REAL, MPI_SUM, comm)
        call check_sum(b)
        call MPI_Allgather(a, n, MPI_REAL, all, n, MPI_REAL, comm)
        call check_parts(all, .false.)
        call MPI_Allgatherv(a, n, MPI_REAL, all, counts, displs, MPI_REAL, comm)
        call check_parts(all, .true.)
        b = -1
        call MPI_Reduce(a, b, n, MPI_REAL, MPI_SUM, nranks - 1, comm)
        if (rank == nranks - 1) call check_sum(b)
        long = [((part(i, rank), i=1, n), r=1, nranks)]
        call MPI_Reduce_scatter_block(long, b, n, MPI_REAL, MPI_SUM, comm)
        call check_sum(b)
        b = -1
        call MPI_Reduce_scatter(long, b, counts, MPI_REAL, MPI_SUM, comm)
        call check_sum(b)
        all = 0
        all(rank * n + 1:(rank + 1) * n) = a
        call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_REAL, comm)
        call check_parts(all, .false.)
        call MPI_Reduce_scatter_block(MPI_IN_PLACE, long, n, MPI_REAL, MPI_SUM, comm)
        call check_sum(long(1:n))

        b = -1
        all = -1
        long = -1
        call MPI_Iallreduce(a, b, n, MPI_REAL, MPI_SUM, comm, requests(1))
        call MPI_Iallgather(a, n, MPI_REAL, all, n, MPI_REAL, comm, requests(2))
        call MPI_Iallgatherv(a, n, MPI_REAL, long, counts, displs, MPI_REAL, comm, requests(3))
        call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
        call check_sum(b)
        call check_parts(all, .false.)
        call check_parts(long, .true.)
        call MPI_Iallreduce(MPI_IN_PLACE, a, n, MPI_REAL, MPI_SUM, comm, requests(1))
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
        call check_sum(a)
    end subroutine

    subroutine check_sum(found)
        real, intent(in) :: found(n)
        integer :: i
        do i = 1, n
            call count_wrong(found(i), i, sum_of(i))
        end do
    end subroutine

    subroutine check_parts(found, backwards)
        real, intent(in) :: found(n * nranks)
        logical, intent(in) :: backwards
        integer :: i, r, of
        do r = 0, nranks - 1
            of = merge(nranks - 1 - r, r, backwards)
            do i = 1, n
                call count_wrong(found(r * n + i), i, part(i, of))
            end do
        end do
    end subroutine
end program ftn_kinds
