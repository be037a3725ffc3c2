#!/usr/bin/env bash
# An installed tree finds its configuration from where it lies, wherever that is; what it is given as
# SYSCONFDIR counts as it is. Its command needs libc only.
set -u
. tests/t/lib.sh
umask 022
FROM_BUILD=$(realpath --relative-to=. "$BUILD")

# installed VARIABLE=VALUE...: make install, after what make has made; not kernels for every GPU.
installed() {
    within 300 make --no-print-directory BUILD="$FROM_BUILD" GPU_ARCHS=90 install "$@"
    [ "$STATUS" -eq 0 ]
}

# configured FILE SEED: a configuration file that can be told from others.
configured() {
    mkdir -p "${1%/*}"
    echo "seed = $2" >"$1"
}

# Of the command COMMAND: info says that SEED comes from FILE, and that it was read.
info_has() {
    within 30 "$1" info
    [ "$STATUS" -eq 0 ] && grep -Eq "^SPARSESHIM_SEED +$3 +system file\$" "$WORK/out" &&
        grep -qxF "  $2: read" "$WORK/out"
}

# Of the library LIBRARY: a preloaded job takes SEED.
job_has() {
    PRELOAD=$1 preloaded 2 fewcalls 3
    passed && [ "$(option SEED)" = "$2" ]
}

# option NAME: its value in the report of rank 0.
option() {
    cat "$WORK"/report/*.json | perl -MJSON::PP -e '
        my $report = decode_json(do { local $/; <STDIN> });
        print map { "$_->{value}\n" } grep { $_->{name} eq $ARGV[0] } @{$report->{options}}' "$1"
}

# tap_finds NAME PREFIX LIBDIR FILE SEED: command and library of a tree take the file, and the
# command finds the library.
tap_finds() {
    local result=0
    info_has "$2/bin/sparseshim" "$4" "$5"
    tap "$?" "$1: sparseshim info has its options and names the file"
    job_has "$3/libsparseshim.so" "$5"
    tap "$?" "$1: so has a preloaded job"
    within 30 "$2/bin/sparseshim" run -n true
    grep -qxF "LD_PRELOAD=$3/libsparseshim.so" "$WORK/out" || result=1
    tap "$result" "$1: sparseshim run preloads its library"
}

# needs_libc_only COMMAND: it starts where there is no jansson and no libelf.
needs_libc_only() {
    within 30 readelf -d "$1"
    [ "$STATUS" -eq 0 ] && grep -q '(NEEDED).*\[libc\.so' "$WORK/out" &&
        ! grep '(NEEDED)' "$WORK/out" | grep -qvE '\[(libc|libm|libpthread|ld-linux[a-z0-9_-]*)\.so\.[0-9]+\]'
}

X=$(realpath "$WORK")/x
cp "$LIB" "$BUILD/sparseshim" "$WORK"
installed PREFIX="$X" && cmp -s "$LIB" "$WORK/libsparseshim.so" &&
    cmp -s "$BUILD/sparseshim" "$WORK/sparseshim"
tap "$?" "make install PREFIX=X after make, which leaves the build directory's as they are"
needs_libc_only "$BUILD/sparseshim" && needs_libc_only "$BUILD/install/sparseshim" &&
    needs_libc_only "$X/bin/sparseshim"
tap "$?" "the command needs libc only: in the build directory, before and after installation"
configured "$X/etc/sparseshim.conf" 11
tap_finds "PREFIX=X" "$X" "$X/lib" "$X/etc/sparseshim.conf" 11
mkdir -p "$X/etc/sparseshim.d"
echo "seed = 12" >"$X/etc/sparseshim.d/fast.conf"
SPARSESHIM_CONFIG=@fast job_has "$X/lib/libsparseshim.so" 12
tap "$?" "PREFIX=X: a profile of sparseshim.d is found"

mkdir "$WORK/else where"
mv "$X" "$WORK/else where/y"
Y=$(realpath "$WORK/else where/y")
info_has "$Y/bin/sparseshim" "$Y/etc/sparseshim.conf" 11
tap "$?" "moved to a path with a blank: sparseshim info"
mv "$Y" "$WORK/y"
Y=$(realpath "$WORK/y")
tap_finds "moved" "$Y" "$Y/lib" "$Y/etc/sparseshim.conf" 11
ln -s "$Y/bin/sparseshim" "$WORK/link"
ln -s "$Y/lib/libsparseshim.so" "$WORK/link.so"
info_has "$WORK/link" "$Y/etc/sparseshim.conf" 11
tap "$?" "started through a link: sparseshim info"
job_has "$WORK/link.so" 11
tap "$?" "preloaded through a link: the job"
# The linker keeps such a name as it is: after a chdir it means nothing.
cat >"$WORK/chdir.c" <<'END_OF_C'
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    if (chdir("/") != 0 || MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    return MPI_Finalize();
}
END_OF_C
within 60 "${MPICC:-mpicc.mpich}" -o "$WORK/chdir" "$WORK/chdir.c"
(cd "$Y" && within 60 env LD_PRELOAD=./lib/libsparseshim.so "$WORK/chdir")
grep -Eq '^  SEED +11$' "$WORK/err"
tap "$?" "preloaded by a relative path into a program that changes its directory"

cp "$Y/lib/libsparseshim.so" "$WORK/first.so"
installed PREFIX="$X" LIBDIR="$X/lib64"
configured "$X/etc/sparseshim.conf" 13
tap_finds "LIBDIR=X/lib64" "$X" "$X/lib64" "$X/etc/sparseshim.conf" 13
installed PREFIX="$X" LIBDIR="$X/lib/x86_64-linux-gnu"
tap_finds "LIBDIR deeper by one" "$X" "$X/lib/x86_64-linux-gnu" "$X/etc/sparseshim.conf" 13

configured "$WORK/some/dir/sparseshim.conf" 14
installed PREFIX="$X" SYSCONFDIR="$WORK/some/dir"
tap_finds "SYSCONFDIR=/some/dir" "$X" "$X/lib" "$WORK/some/dir/sparseshim.conf" 14
mv "$X" "$WORK/z"
Z=$(realpath "$WORK/z")
tap_finds "SYSCONFDIR=/some/dir, moved" "$Z" "$Z/lib" "$WORK/some/dir/sparseshim.conf" 14
installed PREFIX="$X" SYSCONFDIR=etc
[ "$STATUS" -ne 0 ] && grep -q 'SYSCONFDIR=etc does not begin with /' "$WORK/err"
tap "$?" "a SYSCONFDIR that is no absolute path is refused"

installed PREFIX=/opt/sparseshim DESTDIR="$WORK/stage"
S=$(realpath "$WORK/stage/opt/sparseshim")
cmp -s "$S/lib/libsparseshim.so" "$WORK/first.so"
tap "$?" "another PREFIX, under DESTDIR: the same bytes"
configured "$S/etc/sparseshim.conf" 15
tap_finds "DESTDIR" "$S" "$S/lib" "$S/etc/sparseshim.conf" 15

within 30 "$BUILD/sparseshim" info
grep -q '^  /.*/sparseshim.conf: ' "$WORK/out"
tap "$?" "the build directory's command names its file, too"
within 30 env SPARSESHIM_CONFIG=/nowhere/a.conf "$S/bin/sparseshim" info
grep -qxF '  /nowhere/a.conf: not there' "$WORK/out"
tap "$?" "a file of CONFIG that is missing is named"
finish
