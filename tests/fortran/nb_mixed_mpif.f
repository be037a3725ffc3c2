c     nb_mixed_mpif nonblocking|blocking: the rank through mpif.h of a
c     job of several languages. See nb_mixed.c.
      program nbmixf
      implicit none
      include 'mpif.h'
      integer n, steps, calls
      parameter (n = 2048, steps = 20, calls = 5)
      real in(n, calls), out(n, calls)
      common /data/ in, out
      integer request(3), rank, nranks, step, k, token, bad, allbad
      integer ierr, wrong, many, places(3)
      character*16 first

      call getarg(1, first)
      call mpi_init(ierr)
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, nranks, ierr)
      bad = 0
      if (first .eq. 'blocking') then
         call fill(0, rank)
         call mpi_allreduce(in(1, 1), out(1, 1), n, MPI_REAL, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         bad = bad + wrong(0, 1, nranks)
      end if
      do step = 1, steps
         call fill(step, rank)
         call start(1, request(1))
         call start(2, request(2))
         call mpi_allreduce(in(1, 3), out(1, 3), n, MPI_REAL, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call start(4, request(3))
         many = 0
         do while (many .ne. MPI_UNDEFINED)
            call mpi_waitsome(3, request, many, places,
     &           MPI_STATUSES_IGNORE, ierr)
         end do
         do k = 1, 3
            if (request(k) .ne. MPI_REQUEST_NULL) bad = bad + 1
         end do
         call start(5, request(1))
         if (rank .eq. 0) then
            call mpi_recv(token, 1, MPI_INTEGER, 2, 5, MPI_COMM_WORLD,
     &           MPI_STATUS_IGNORE, ierr)
            if (token .ne. -step) bad = bad + 1
         end if
         call mpi_wait(request(1), MPI_STATUS_IGNORE, ierr)
         if (rank .eq. 2) then
            token = -step
            call mpi_send(token, 1, MPI_INTEGER, 0, 5, MPI_COMM_WORLD,
     &           ierr)
         end if
         bad = bad + wrong(step, calls, nranks)
      end do
      call mpi_reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0,
     &     MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) then
         if (allbad .eq. 0) then
            print '(2a)', 'ok 1 - sums of a job of several languages, ',
     &         'rank 0 through mpif.h'
         else
            print '(a,i0,a)', 'not ok 1 - ', allbad,
     &         ' wrong entries, tokens or requests'
         end if
         print '(a)', '1..1'
      end if
      call mpi_finalize(ierr)
      if (rank .eq. 0 .and. allbad .ne. 0) stop 1
      end

      integer function entry_of(i, of, which)
      implicit none
      integer i, of, which
      entry_of = 0
      if (mod(i + of + which, 50) .lt. 2)
     &   entry_of = mod(i + which, 31) + of + 1
      end

      subroutine fill(step, rank)
      implicit none
      integer n, calls, step, rank, i, k, entry_of
      parameter (n = 2048, calls = 5)
      real in(n, calls), out(n, calls)
      common /data/ in, out
      do k = 1, calls
         do i = 1, n
            in(i, k) = entry_of(i - 1, rank, calls * step + k - 1)
            out(i, k) = -7.0
         end do
      end do
      end

c     Entries of the first sums of a step that are wrong.
      integer function wrong(step, sums, nranks)
      implicit none
      integer n, calls, step, sums, nranks, i, k, r, want, entry_of
      parameter (n = 2048, calls = 5)
      real in(n, calls), out(n, calls)
      common /data/ in, out
      wrong = 0
      do k = 1, sums
         do i = 1, n
            want = 0
            do r = 0, nranks - 1
               want = want + entry_of(i - 1, r, calls * step + k - 1)
            end do
            if (out(i, k) .ne. real(want)) wrong = wrong + 1
         end do
      end do
      end

      subroutine start(k, request)
      implicit none
      include 'mpif.h'
      integer n, calls, k, request, ierr
      parameter (n = 2048, calls = 5)
      real in(n, calls), out(n, calls)
      common /data/ in, out
      call mpi_iallreduce(in(1, k), out(1, k), n, MPI_REAL, MPI_SUM,
     &     MPI_COMM_WORLD, request, ierr)
      end
