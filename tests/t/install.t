#!/usr/bin/env bash
# An installed tree is complete, the same from any directory, and goes again. It finds its
# configuration from where it lies, wherever that is; what it is given as SYSCONFDIR counts as it is.
# Its command needs libc only.
set -u
. tests/t/lib.sh
umask 022
FROM_BUILD=$(realpath --relative-to=. "$BUILD")

# installed VARIABLE=VALUE...: make install, after what make has made; not kernels for every GPU.
installed() {
    within 300 flock "$BUILD/install.lock" make --no-print-directory BUILD="$FROM_BUILD" GPU_ARCHS=90 install "$@"
    [ "$STATUS" -eq 0 ]
}

# configured FILE TIMEOUT: a configuration file that can be told from others.
configured() {
    mkdir -p "${1%/*}"
    echo "timeout = $2" >"$1"
}

# Succeeds if the info of COMMAND says that TIMEOUT comes from FILE, and that FILE was read.
info_has() {
    within 30 "$1" info
    [ "$STATUS" -eq 0 ] && grep -Eq "^SPARSESHIM_TIMEOUT +$3 +system file\$" "$WORK/out" &&
        grep -qxF "  $2: read" "$WORK/out"
}

# Of the library LIBRARY: a preloaded job takes TIMEOUT.
job_has() {
    PRELOAD=$1 preloaded 2 fewcalls 3
    passed && [ "$(option TIMEOUT)" = "$2" ]
}

# option NAME: its value in the report of rank 0.
option() {
    cat "$WORK"/report/*.json | perl -MJSON::PP -e '
        my $report = decode_json(do { local $/; <STDIN> });
        print map { "$_->{value}\n" } grep { $_->{name} eq $ARGV[0] } @{$report->{options}}' "$1"
}

# tap_finds NAME PREFIX LIBDIR FILE TIMEOUT: command and library of a tree take the file, and the
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

# needs_libc_only COMMAND: it starts where there is no libelf.
needs_libc_only() {
    within 30 readelf -d "$1"
    [ "$STATUS" -eq 0 ] && grep -q '(NEEDED).*\[libc\.so' "$WORK/out" &&
        ! grep '(NEEDED)' "$WORK/out" | grep -qvE '\[(libc|libm|libpthread|ld-linux[a-z0-9_-]*)\.so\.[0-9]+\]'
}

# uninstalled VARIABLE=VALUE...: make uninstall.
uninstalled() {
    within 60 make --no-print-directory BUILD="$FROM_BUILD" GPU_ARCHS=90 uninstall "$@"
    [ "$STATUS" -eq 0 ]
}

# files TREE: what is in it.
files() {
    (cd "$1" && find . -type f | sort)
}

# has_debug FILE DEBUG [SOURCE]: it is stripped, and its debug information is below DEBUG, by its
# build ID, with the lines of SOURCE (where.c), and with the name that the file gives it.
has_debug() {
    local id debug source=${3:-where.c}
    id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
    debug=$2/.build-id/${id:0:2}/${id:2}.debug
    ! readelf -S "$1" | grep -qE '\.(symtab|debug_info)' && [ -n "$id" ] && readelf -S "$debug" | grep -q '\.debug_info' &&
        readelf -p .gnu_debuglink "$1" | grep -qF "${id:2}.debug" &&
        readelf --debug-dump=decodedline "$debug" 2>/dev/null | grep -qF "$source"
}

# A tree of its own: complete, stripped, the same from another directory, and gone again.
complete_tree() {
    local tree=$WORK/complete version
    version=$(sed -n 's/^VERSION *:= *//p' Makefile)
    umask 077
    installed NVCC= PREFIX="$tree"
    tap "$?" "make install NVCC= into a new tree"
    grep -qxF 'no nvcc: device buffers are not built (scripts/install-deps gpu)' "$WORK/out"
    tap "$?" "... which says that device buffers are left out, and what brings them"
    umask 022
    files "$tree" | grep -v '/debug/' >"$WORK/got"
    {
        printf './%s\n' bin/sparseshim include/sparseshim.h lib/libsparseshim.so libexec/sparseshim/{bench_allreduce,sparseshim-simulate} lib/pkgconfig/sparseshim.pc \
            share/bash-completion/completions/sparseshim share/man/man{1/sparseshim.1,5/sparseshim.conf.5,7/sparseshim.7} \
            share/doc/sparseshim/{README.md,LICENSE,scripts/results.md,scripts/loss.svg,scripts/CHANGELOG.md} \
            share/modulefiles/sparseshim/{.version,"$version","$version".lua,auto,auto.lua}
        find scripts/examples -type f -printf './share/doc/sparseshim/examples/%f\n'
        find config/profiles -name '*.conf' -printf './etc/sparseshim.d/%f\n' 2>/dev/null
        find shim/cli -name '*_*.py' -printf './libexec/sparseshim/%f\n'
        (cd shim/torch && find . -name '*.py' ! -path '*/__pycache__/*' -printf './libexec/sparseshim/python/%P\n')
        find shim/cli -name '*.py' ! -name '*_*' -printf '%f\n' | sed 's|\(.*\)\.py|./libexec/sparseshim/sparseshim-\1|'
    } | sort >"$WORK/want"
    diff "$WORK/want" "$WORK/got" >"$WORK/out" && [ -d "$tree/etc/sparseshim.d" ] &&
        [ -z "$(find "$tree" ! -perm -444 -o -type d ! -perm -555)" ]
    tap "$?" "it is complete, and readable by all under any umask"
    grep -oP '\]\(\K[^):#]+(?=\))' "$tree/share/doc/sparseshim/README.md" >"$WORK/links"
    [ "$(wc -l <"$WORK/links")" -ge 2 ] && (cd "$tree/share/doc/sparseshim" && xargs ls -d <"$WORK/links" >"$WORK/out" 2>&1)
    tap "$?" "the files that README.md links are beside it"
    ! grep -rlE '@[A-Z_]+@' "$tree/share/modulefiles" "$tree/lib/pkgconfig" "$tree/share/man" >"$WORK/out"
    tap "$?" "nothing is left of the templates"
    has_debug "$tree/lib/libsparseshim.so" "$tree/lib/sparseshim/debug" &&
        has_debug "$tree/bin/sparseshim" "$tree/lib/sparseshim/debug" &&
        has_debug "$tree/libexec/sparseshim/sparseshim-simulate" "$tree/lib/sparseshim/debug" simulate.c
    tap "$?" "library and command are stripped; their debug information lies apart"

    mkdir "$WORK/another place"
    cp -r Makefile shim core gpu config scripts tests README.md LICENSE "$WORK/another place"
    mkdir "$WORK/another place/out"
    cp -r "$BUILD/obj" "$WORK/another place/out"
    # Objects of this build are taken but for one of each part: seconds instead of a minute. One rule
    # compiles all.
    for folder in config core/coll core/sim shim/entry shim/cli shim/simulate; do
        find "$WORK/another place/out/obj/$folder" -name '*.o' | sort | head -n 1
    done | xargs -d '\n' rm
    mv "$tree" "$WORK/first"
    (cd "$WORK/another place" && within 300 make -j"$(nproc)" --no-print-directory NVCC= BUILD=out install PREFIX="$tree")
    diff -r "$tree" "$WORK/first" >"$WORK/out" 2>&1 && [ -n "$(files "$tree")" ]
    tap "$?" "built in another directory: the same bytes"
    rm -rf "$WORK/first"

    uninstalled NVCC= PREFIX="$tree" && [ ! -e "$tree" ]
    tap "$?" "make uninstall leaves nothing"
}

# What is in a tree besides, and a profile that the administrator has changed.
changed_tree() {
    local tree=$WORK/changed profile kept
    installed NVCC= PREFIX="$tree"
    profile=$(find config/profiles -name '*.conf' 2>/dev/null | sort | head -n 1)
    if [ -z "$profile" ]; then
        skip "a profile that was changed" "there are no profiles"
    else
        profile=$tree/etc/sparseshim.d/${profile##*/}
        echo "# mine" >>"$profile"
        installed NVCC= PREFIX="$tree" && grep -qx '# mine' "$profile" && [ -s "$profile.new" ] && grep -qF "$profile" "$WORK/out"
        tap "$?" "a profile that was changed stays; the new one is beside it"
    fi
    touch "$tree/lib/other"
    echo "timeout = 1" >"$tree/etc/sparseshim.d/own.conf"
    uninstalled NVCC= PREFIX="$tree"
    kept=$(files "$tree" | tr '\n' ' ')
    [ "$STATUS" -eq 0 ] && [ "${kept/"./etc/sparseshim.d/${profile##*/} "/}" = './etc/sparseshim.d/own.conf ./lib/other ' ]
    tap "$?" "make uninstall leaves what is not its own"
    [ -z "$profile" ] || grep -qx '# mine' "$profile"
    tap "$?" "make uninstall leaves a profile that was changed, alone"
    rm -rf "$tree"
}

# The sparseshim.pc of a tree knows where that is.
pkgconfig_has() {
    local preload
    preload=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --variable=preload sparseshim) &&
        [ "$(realpath "$preload")" = "$1/lib/libsparseshim.so" ] &&
        [ "$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --modversion sparseshim)" = "$("$1/bin/sparseshim" --version | tr -dc 0-9.)" ] &&
        echo '#include <sparseshim.h>' >"$WORK/header.c" &&
        PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags sparseshim | xargs "${CC:-cc}" -fsyntax-only "$WORK/header.c"
}

tap_pkgconfig() {
    if ! command -v pkg-config >/dev/null; then
        skip "$1" "no pkg-config"
        return
    fi
    pkgconfig_has "$2" 2>"$WORK/err"
    tap "$?" "$1"
}

# completed WORD...: what bash completes the last word to, by the file of the tree.
completed() {
    # shellcheck disable=SC2016 # expanded by the shell that completes
    PATH=$X/bin:$PATH bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sparseshim 2>/dev/null
        echo "${COMPREPLY[*]}"' "$X/share/bash-completion/completions/sparseshim" "$@"
}

complete_tree
changed_tree
X=$(realpath "$WORK")/x
cp "$LIB" "$BUILD/sparseshim" "$WORK"
installed PREFIX="$X" && cmp -s "$LIB" "$WORK/libsparseshim.so" &&
    cmp -s "$BUILD/sparseshim" "$WORK/sparseshim"
tap "$?" "make install PREFIX=X after make, which leaves the build directory's as they are"
needs_libc_only "$BUILD/sparseshim" && needs_libc_only "$BUILD/install/sparseshim" &&
    needs_libc_only "$X/bin/sparseshim" &&
    needs_libc_only "$X/libexec/sparseshim/sparseshim-simulate"
tap "$?" "the command and the simulator need libc only: in the build directory, before and after installation"
configured "$X/etc/sparseshim.conf" 110
tap_finds "PREFIX=X" "$X" "$X/lib" "$X/etc/sparseshim.conf" 110
mkdir -p "$X/etc/sparseshim.d"
echo "timeout = 120" >"$X/etc/sparseshim.d/fast.conf"
SPARSESHIM_CONFIG=@fast job_has "$X/lib/libsparseshim.so" 120
tap "$?" "PREFIX=X: a profile of sparseshim.d is found"

tap_pkgconfig "pkg-config names the library and its version" "$X"
[ "$(completed sparseshim re)" = report ] && [ "$(completed sparseshim run --min)" = --min_count= ] &&
    [ "$(completed sparseshim learn --ste)" = --steps= ] && [ "$(completed sparseshim simulate --dens)" = --density= ] && [ "$(completed sparseshim help ch)" = check ] &&
    [ -z "$(completed sparseshim run -- --min)" ] && [ -z "$(completed sparseshim check ./a)" ]
tap "$?" "bash completes verbs and options"
within 60 "$X/bin/sparseshim" simulate --ranks=3 --count=10000
[ "$STATUS" = 0 ] && [ "$(grep -cE '^ +3 +10000 .* simulated ' "$WORK/out")" = "$({ algorithms EXACT && algorithms GLOBAL && algorithms WHOLE && echo dense; } | wc -l)" ]
tap "$?" "the installed command simulates"
within 60 "$X/bin/sparseshim" bench --count=0 -- true
[ "$STATUS" = 2 ] && grep -q '^sparseshim bench: --count=0: ' "$WORK/err" && [ ! -e "$X/libexec/sparseshim/__pycache__" ]
tap "$?" "and runs its scripts"
PATH=/nowhere "$X/bin/sparseshim" bench -- true >"$WORK/out" 2>"$WORK/err"
[ "$?" = 127 ] && grep -qx 'sparseshim bench: python3 cannot be run: No such file or directory; this verb needs Python 3.9 or later in PATH' "$WORK/err"
tap "$?" "without python3 it says what is missing"
mv "$X/libexec" "$WORK/libexec"
within 60 "$X/bin/sparseshim" simulate --ranks=3
[ "$STATUS" = 127 ] && grep -qx "sparseshim simulate: its program $X/libexec/sparseshim/sparseshim-simulate cannot be read: No such file or directory" "$WORK/err"
tap "$?" "a program that is not installed is named"
mv "$WORK/libexec" "$X/libexec"

mkdir "$WORK/else where"
mv "$X" "$WORK/else where/y"
Y=$(realpath "$WORK/else where/y")
info_has "$Y/bin/sparseshim" "$Y/etc/sparseshim.conf" 110
tap "$?" "moved to a path with a blank: sparseshim info"
mv "$Y" "$WORK/y"
Y=$(realpath "$WORK/y")
tap_finds "moved" "$Y" "$Y/lib" "$Y/etc/sparseshim.conf" 110
tap_pkgconfig "moved: pkg-config" "$Y"
ln -s "$Y/bin/sparseshim" "$WORK/link"
ln -s "$Y/lib/libsparseshim.so" "$WORK/link.so"
info_has "$WORK/link" "$Y/etc/sparseshim.conf" 110
tap "$?" "started through a link: sparseshim info"
job_has "$WORK/link.so" 110
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
[ "$(option TIMEOUT)" = 110 ]
tap "$?" "preloaded by a relative path into a program that changes its directory"

cp "$Y/lib/libsparseshim.so" "$WORK/first.so"
installed PREFIX="$X" LIBDIR="$X/lib64"
configured "$X/etc/sparseshim.conf" 130
tap_finds "LIBDIR=X/lib64" "$X" "$X/lib64" "$X/etc/sparseshim.conf" 130
installed PREFIX="$X" LIBDIR="$X/lib/x86_64-linux-gnu"
tap_finds "LIBDIR deeper by one" "$X" "$X/lib/x86_64-linux-gnu" "$X/etc/sparseshim.conf" 130

configured "$WORK/some/dir/sparseshim.conf" 140
installed PREFIX="$X" SYSCONFDIR="$WORK/some/dir"
tap_finds "SYSCONFDIR=/some/dir" "$X" "$X/lib" "$WORK/some/dir/sparseshim.conf" 140
mv "$X" "$WORK/z"
Z=$(realpath "$WORK/z")
tap_finds "SYSCONFDIR=/some/dir, moved" "$Z" "$Z/lib" "$WORK/some/dir/sparseshim.conf" 140
installed PREFIX="$X" SYSCONFDIR=etc
[ "$STATUS" -ne 0 ] && grep -q 'SYSCONFDIR=etc does not begin with /' "$WORK/err"
tap "$?" "a SYSCONFDIR that is no absolute path is refused"

installed PREFIX=/opt/sparseshim DESTDIR="$WORK/stage"
S=$(realpath "$WORK/stage/opt/sparseshim")
cmp -s "$S/lib/libsparseshim.so" "$WORK/first.so"
tap "$?" "another PREFIX, under DESTDIR: the same bytes"
configured "$S/etc/sparseshim.conf" 150
tap_finds "DESTDIR" "$S" "$S/lib" "$S/etc/sparseshim.conf" 150

within 30 "$BUILD/sparseshim" info
grep -q '^  /.*/sparseshim.conf: ' "$WORK/out"
tap "$?" "the build directory's command names its file, too"
within 30 env SPARSESHIM_CONFIG=/nowhere/a.conf "$S/bin/sparseshim" info
grep -qxF '  /nowhere/a.conf: not there' "$WORK/out"
tap "$?" "a file of CONFIG that is missing is named"

# Elsewhere a function that takes an int may read the upper half of a word, or the other end of it.
for machine in riscv64 aarch64_be; do
    printf '#!/bin/sh\necho %s-linux-gnu\n' $machine >"$WORK/cc"
    chmod +x "$WORK/cc"
    within 30 make --no-print-directory BUILD="$WORK/other" CC="$WORK/cc" "$WORK/other/libsparseshim.so"
    [ "$STATUS" -ne 0 ] && grep -q "serves x86-64 and little-endian aarch64; $WORK/cc compiles for $machine-linux-gnu" "$WORK/err"
    tap "$?" "make refuses to compile for $machine"
done
finish
