c     mpif.h: MPI_Iallreduce with Wait, Waitall and Test, in place too.
      program nbmpif
      implicit none
      include 'mpif.h'
      integer n
      parameter (n = 4096)
      real a(n), b(n)
      double precision c(n), d(n)
      integer k(n), l(n)
      integer requests(3), ierr, rank, nranks, i, call, bad, allbad
      integer whole
      logical flag

      call mpi_init(ierr)
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, nranks, ierr)
      bad = 0
      do call = 1, 4
         do i = 1, n
            k(i) = 0
            if (mod(i, 50) .eq. call) k(i) = i + rank
            a(i) = real(k(i))
            c(i) = dble(k(i))
            b(i) = -7.0
            d(i) = -7.0d0
            l(i) = -7
         end do
         call mpi_iallreduce(a, b, n, MPI_REAL, MPI_SUM,
     &        MPI_COMM_WORLD, requests(1), ierr)
         call mpi_iallreduce(c, d, n, MPI_DOUBLE_PRECISION, MPI_SUM,
     &        MPI_COMM_WORLD, requests(2), ierr)
         call mpi_iallreduce(k, l, n, MPI_INTEGER, MPI_SUM,
     &        MPI_COMM_WORLD, requests(3), ierr)
         call mpi_waitall(3, requests, MPI_STATUSES_IGNORE, ierr)
         do i = 1, 3
            if (requests(i) .ne. MPI_REQUEST_NULL) bad = bad + 1
         end do
         call mpi_iallreduce(MPI_IN_PLACE, a, n, MPI_REAL4, MPI_SUM,
     &        MPI_COMM_WORLD, requests(1), ierr)
         call mpi_wait(requests(1), MPI_STATUS_IGNORE, ierr)
         call mpi_iallreduce(MPI_IN_PLACE, c, n, MPI_REAL8, MPI_SUM,
     &        MPI_COMM_WORLD, requests(2), ierr)
         flag = .false.
         do while (.not. flag)
            call mpi_test(requests(2), flag, MPI_STATUS_IGNORE, ierr)
         end do
         do i = 1, n
            whole = 0
            if (mod(i, 50) .eq. call)
     &         whole = nranks * i + nranks * (nranks - 1) / 2
            if (a(i) .ne. real(whole)) bad = bad + 1
            if (b(i) .ne. real(whole)) bad = bad + 1
            if (c(i) .ne. dble(whole)) bad = bad + 1
            if (d(i) .ne. dble(whole)) bad = bad + 1
            if (l(i) .ne. whole) bad = bad + 1
         end do
      end do
      call mpi_reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0,
     &     MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) then
         if (allbad .eq. 0) then
            print '(a)', 'ok 1 - nonblocking sums through mpif.h'
         else
            print '(a,i0,a)', 'not ok 1 - ', allbad,
     &         ' wrong elements or requests'
         end if
         print '(a)', '1..1'
      end if
      call mpi_finalize(ierr)
      if (rank .eq. 0 .and. allbad .ne. 0) stop 1
      end
