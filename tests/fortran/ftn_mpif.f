c     mpif.h: real(4), real(8), integer and MPI_IN_PLACE.
      program ftnmpif
      implicit none
      include 'mpif.h'
      integer n
      parameter (n = 4096)
      real a(n), b(n)
      double precision c(n), d(n)
      integer k(n), l(n)
      integer ierr, rank, size, i, call, bad, allbad

      call mpi_init(ierr)
      call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
      call mpi_comm_size(MPI_COMM_WORLD, size, ierr)
      bad = 0
      do call = 1, 3
         do i = 1, n
            a(i) = 0.0
            c(i) = 0.0d0
            k(i) = 0
            b(i) = -7.0
            d(i) = -7.0d0
            l(i) = -7
            if (mod(i, 50) .eq. call) then
               a(i) = real(i + rank)
               c(i) = dble(i + rank)
               k(i) = i + rank
            end if
         end do
         call mpi_allreduce(a, b, n, MPI_REAL, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call mpi_allreduce(c, d, n, MPI_DOUBLE_PRECISION, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call mpi_allreduce(k, l, n, MPI_INTEGER, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call mpi_allreduce(MPI_IN_PLACE, a, n, MPI_REAL4, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call mpi_allreduce(MPI_IN_PLACE, c, n, MPI_REAL8, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         call mpi_allreduce(MPI_IN_PLACE, k, n, MPI_INTEGER4, MPI_SUM,
     &        MPI_COMM_WORLD, ierr)
         do i = 1, n
            if (mod(i, 50) .eq. call) then
               l(i) = l(i) - (size * i + size * (size - 1) / 2)
               b(i) = b(i) - real(size * i + size * (size - 1) / 2)
               d(i) = d(i) - dble(size * i + size * (size - 1) / 2)
               k(i) = k(i) - (size * i + size * (size - 1) / 2)
               a(i) = a(i) - real(size * i + size * (size - 1) / 2)
               c(i) = c(i) - dble(size * i + size * (size - 1) / 2)
            end if
            if (a(i) .ne. 0.0 .or. b(i) .ne. 0.0) bad = bad + 1
            if (c(i) .ne. 0.0d0 .or. d(i) .ne. 0.0d0) bad = bad + 1
            if (k(i) .ne. 0 .or. l(i) .ne. 0) bad = bad + 1
         end do
      end do
      call mpi_reduce(bad, allbad, 1, MPI_INTEGER, MPI_SUM, 0,
     &     MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) then
         if (allbad .eq. 0) then
            print '(a)', 'ok 1 - sums through mpif.h'
         else
            print '(a,i0,a)', 'not ok 1 - ', allbad, ' wrong elements'
         end if
         print '(a)', '1..1'
      end if
      call mpi_finalize(ierr)
      if (rank .eq. 0 .and. allbad .ne. 0) stop 1
      end
