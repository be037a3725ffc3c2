#!/usr/bin/env bash
# The recipes of sparseshim(7), typed as the page has them: programs compile, sums are right, calls
# are served, and what is to be seen is seen. Slurm's is typed by slurm.t. `make check-more PART=frameworks`
# also types what installs mpi4py, PyTorch and jax with mpi4jax; else those of python.sh are taken.
set -u
. tests/t/lib.sh
. tests/t/python.sh
. tests/t/recipes.sh
HERE=$PWD
unset UCX_TLS HWLOC_COMPONENTS HWLOC_PLUGINS_PATH MPIR_CVAR_NOLOCAL # the user's programs find the networks

# tap_typed NAME [LEAST]: what was typed last ended well, and at least LEAST calls were made sparse.
tap_typed() {
    local result=$?
    if [ "$result" -eq 0 ] && [ "$CALLS" -lt "${2:-1}" ]; then
        echo "calls made sparse: $CALLS, expected at least ${2:-1}" >>"$WORK/err"
        result=1
    fi
    tap "$result" "$1"
}

# Every block can be copied: plain characters, no wider than a page, hyphens that stay hyphens.
copied() {
    local name
    grep -A 100000 '^RECIPES$' "$WORK/manual" | grep -B 100000 '^SEE ALSO$' | grep '^ \{11\}' >"$WORK/out"
    ! LC_ALL=C grep -n '[^ -~]' "$WORK/out" >"$WORK/err" && ! grep -nE '^.{81}' "$WORK/out" >>"$WORK/err" &&
        ! sed -n '/^\.SH RECIPES/,/^\.SH SEE ALSO/{/^\.EX/,/^\.EE/p}' config/sparseshim.7.in |
        grep -nE '(^|[^\\])-' >>"$WORK/err"
    tap "$?" "the recipes can be copied from the page"
    sed -n '/^\.SH RECIPES/,/^\.SH SEE ALSO/s/^\.SS //p' config/sparseshim.7.in >"$WORK/names"
    while IFS= read -r name; do
        case $name in Horovod) continue ;; esac
        recipe "$name" "$WORK/seen"
        [ -n "$(find "$WORK/seen.session" -name '*.printed' ! -empty)" ]
        tap "$?" "$name: says what is to be seen"
        rm -rf "$WORK/seen" "$WORK/seen.session"
    done <"$WORK/names"
    grep -A 1 '^   Horovod$' "$WORK/manual" | tail -n 1 | grep -q '^ *Tried  *with  *0\.28\.1,' &&
        grep -qx 'HOROVOD=0\.28\.1' scripts/others
    tap "$?" "Horovod: tried with the version of scripts/others"
}

c() {
    recipe C "$WORK/C"
    SPARSESHIM_LIB=$LIB typed "$WORK/C"
    tap_typed "C: $COMMANDS commands" 400
}

# The same recipe for a user of Open MPI.
c_of_open_mpi() {
    if ! command -v mpicc.openmpi >/dev/null || ! command -v mpirun.openmpi >/dev/null; then
        skip "C under Open MPI" "it is not installed (openmpi-bin, libopenmpi-dev)"
        return
    fi
    recipe C "$WORK/open"
    sed -i 's/COUNT = 200000/COUNT = 70000/' "$WORK/open/train.c"
    cp -r "$TOOLS" "$WORK/mpich-tools"
    tool mpicc mpicc.openmpi
    tool mpirun "env OPEN_MPIRUN=mpirun.openmpi OPEN_BTL=self,vader $HERE/tests/t/open-mpirun"
    SPARSESHIM_LIB=$LIB typed "$WORK/open"
    tap_typed "C under Open MPI: $COMMANDS commands" 400
    within 30 "$BUILD/sparseshim" check "$WORK/open/sum"
    [ "$STATUS" -eq 0 ] && grep -q '^MPI: .*, Open MPI 4 or 5$' "$WORK/out"
    tap "$?" "C under Open MPI: check says that calls would be seen"
    cp "$WORK/mpich-tools"/* "$TOOLS"
}

fortran() {
    if ! command -v gfortran >/dev/null; then
        skip Fortran "no gfortran"
        return
    fi
    recipe Fortran "$WORK/Fortran"
    typed "$WORK/Fortran"
    tap_typed "Fortran, use mpi_f08" 19
    sed -i 's/use mpi_f08/use mpi/' "$WORK/Fortran/sum.f90"
    typed "$WORK/Fortran"
    tap_typed "Fortran, use mpi" 19
    sed -i "/use mpi/d; s/implicit none/&\n    include 'mpif.h'/" "$WORK/Fortran/sum.f90"
    typed "$WORK/Fortran"
    tap_typed "Fortran, mpif.h" 19
}

# python NAME LEAST HAVE: a recipe whose programs are Python's. HAVE FOLDER: makes the virtual
# environment that the recipe installs, from those of python.sh, where that can be.
INSTALLS='python3 -m venv|pip install'
tool python3 "$PYTHON3"
python() {
    recipe "$1" "$WORK/$1"
    if [ "${FRAMEWORKS:-}" = install ]; then
        CFLAGS='-O0 -g0' LIMIT=900 typed "$WORK/$1" "$INSTALLS"
        tap "$?" "$1: installed, by $COMMANDS commands"
    elif "$3" "$WORK/$1/venv"; then
        skip "$1: its installation" "takes minutes: make check-more PART=frameworks"
    else
        skip "$1" "not installed: make check-more PART=frameworks"
        return
    fi
    LIMIT=240 typed "$WORK/$1" sparseshim
    tap_typed "$1: its program" "$2"
}

venv_mpi4py() {
    have_mpi4py && ln -s "$VENV" "$1"
}

venv_torch() {
    have_torch && mkdir -p "$1/bin" && ln -s "$PYTHON3" "$1/bin/python" && export PYTHONPATH=$WORK/path
}

venv_jax() {
    have_jax && ln -s "$VENV" "$1"
}

# A time limit, in the background: it takes its 15 s. The steps sleep, so that it takes no processor time.
limited() {
    recipe 'Time limits and requeued jobs' "$WORK/limited"
    sed -i 's/^ *MPI_Allreduce/usleep(50000);&/; s/^#include <mpi.h>/&\n#include <unistd.h>/' "$WORK/limited/train.c"
    within 60 "$TOOLS/mpicc" -O2 -o "$WORK/limited/train" "$WORK/limited/train.c"
    mkdir "$WORK/limited.work"
    limited_typed &
}

limited_typed() {
    local folder=$WORK/limited WORK=$WORK/limited.work
    renice -n 10 -p "$BASHPID" >/dev/null
    typed "$folder"
    echo "$? $COMMANDS $CALLS" >"$WORK/result"
}

limited_ended() {
    local result
    wait
    read -r result COMMANDS CALLS <"$WORK/limited.work/result"
    cp "$WORK/limited.work/"{out,err} "$WORK"
    (exit "$result")
    tap_typed "a time limit: $COMMANDS commands, one of which it ends"
    rm -rf "$WORK/report"
    mkdir "$WORK/report"
    cp "$WORK/limited/reports"/sparseshim-*-0-*.json "$WORK/report"
    [ "$(counter job.complete)" = 0 ] && [ "$(tensors state=registered)" = 1 ] &&
        [ "$(tensors state=registered residual_norm=0)" = 0 ] && [ "$(tensors residual_norm=null)" = 0 ]
    tap "$?" "... its report is not complete, and has the norm of the residual that was lost"
}

# The batch scripts: observe.sbatch changes nothing, train.sbatch takes the rules that learn has written.
settings() { # FILE
    sed -n 's/^export //p' "$1" | grep -o 'SPARSESHIM_[A-Z_]*=[^ ]*' | sort
}

batch_scripts() {
    settings scripts/examples/train.sbatch >"$WORK/want"
    settings scripts/examples/observe.sbatch >"$WORK/out"
    [ "$(sed '/STRICT=on/d; s,CONFIG=train.conf,MODE=observe,' "$WORK/want" | sort)" = "$(cat "$WORK/out")" ] &&
        grep -q '^SPARSESHIM_CONFIG=train.conf$' "$WORK/want"
    tap "$?" "Slurm: observe.sbatch has the settings of train.sbatch, but observes in place of its rules"
    local script set
    mapfile -t set < <(sed "s,=train.conf,=$WORK/none.conf,; /REPORT/d" "$WORK/want")
    within 60 env SPARSESHIM_MIN_COUNT=1 "${set[@]}" "$MPIRUN" -n 2 -genv LD_PRELOAD "$LIB $YIELDS" "$PROGRAMS/fewcalls" 4
    [ "$STATUS" -ne 0 ] && grep -q 'none.conf cannot be read' "$WORK/err" && grep -q 'SPARSESHIM_CONFIG cannot be read' "$WORK/err" "$WORK/out"
    tap "$?" "Slurm: with the settings of train.sbatch a job fails if its rules are missing"
    mkdir "$WORK/no-module"
    printf '#!/bin/sh\n: >"%s"\n' "$WORK/started" >"$WORK/no-module/srun"
    chmod +x "$WORK/no-module/srun"
    for script in observe train; do
        env -i PATH="$WORK/no-module" /bin/bash "scripts/examples/$script.sbatch" ./app >"$WORK/out" 2>"$WORK/err"
        [ ! -e "$WORK/started" ] && grep -q 'module' "$WORK/err"
        tap "$?" "Slurm: $script.sbatch ends if the module cannot be loaded"
    done
}

# The C library that it needs: what the page says, and what one that is too old says.
glibc() { # FOLDER
    local have needed stated older
    typed "$1" objdump
    tap "$?" "containers: the page's command tells the glibc that is needed"
    needed=$(cat "$WORK/out")
    stated=$(tr -s ' \n' ' ' <"$WORK/manual" | grep -o 'Built on Debian 12 it is GLIBC_[0-9]\.[0-9]*')
    stated=${stated##* }
    have=$(getconf GNU_LIBC_VERSION | sed 's/glibc /GLIBC_/')
    if [ "$have" = GLIBC_2.36 ]; then
        [ -n "$stated" ] && [ "$needed" = "$stated" ]
        tap "$?" "... which is $stated, as the page has it"
    else
        skip "... which is what the page has" "built for $have, not on Debian 12: $needed"
    fi
    older=$WORK/older.so
    LC_ALL=C sed "s/$needed/${needed//[0-9]/9}/" "$LIB" >"$older"
    within 10 env LD_PRELOAD="$older" true
    [ "$STATUS" -ne 0 ] && grep -qF "version \`${needed//[0-9]/9}' not found" "$WORK/err"
    tap "$?" "... without it no program starts, and the loader names it"
}

# Its image has none of this build: what the program gets is what the recipe binds.
contained() {
    local folder=$WORK/Containers
    recipe Containers "$folder"
    export SPARSESHIM_ROOT=$WORK/tree SPARSESHIM_LIB=$WORK/tree/lib/libsparseshim.so CONTAINER_ROOT=$WORK/root
    within 300 flock "$BUILD/install.lock" make --no-print-directory BUILD="$(realpath --relative-to=. "$BUILD")" \
        NVCC= install PREFIX="$SPARSESHIM_ROOT"
    [ "$STATUS" -eq 0 ]
    tap "$?" "containers: make install"
    glibc "$folder"
    mkdir "$CONTAINER_ROOT"
    cp "$WORK/C/sum" "$folder"
    ln -s "$HERE/tests/t/container" "$TOOLS/apptainer"
    ln -s "$HERE/tests/t/container" "$TOOLS/docker"
    within 30 "$TOOLS/apptainer" exec image.sif true
    if [ "$STATUS" -ne 0 ]; then
        skip "containers" "no root of its own for a program: $(tail -n 1 "$WORK/err")"
        return
    fi
    echo 'algorithm = split_allgather' >"$SPARSESHIM_ROOT/etc/sparseshim.conf"
    # Without rights each rank is in a user namespace of its own, as the page says.
    [ "$(id -u)" = 0 ] || export UCX_TLS=tcp,self
    # Ranks in containers are without what makes them yield.
    tool mpirun "$(command -v "$MPIRUN")"
    typed "$folder" 'apptainer|docker'
    tap_typed "containers: $COMMANDS commands" 38
    grep -q '"ALGORITHM", "value": "split_allgather"' "$folder"/reports/*.json && grep -q '"sparse": *19' "$folder"/reports/*.json
    tap "$?" "... the bound sparseshim.conf is read, a report is in the bound directory"
    (cd "$folder" && within 60 env PATH="$TOOLS:$PATH" APPTAINERENV_LD_PRELOAD="$SPARSESHIM_LIB" SPARSESHIM_REPORT=rank0 \
        mpirun -n 2 apptainer exec image.sif ./sum)
    grep -q 'cannot be preloaded' "$WORK/err" && grep -qx 'sum 20000' "$WORK/out" && ! grep -q 'made sparse' "$WORK/err"
    tap "$?" "... not bound: the loader says so, and the job runs without"
}

copied
c
c_of_open_mpi
limited
fortran
python mpi4py 19 venv_mpi4py
python PyTorch 90 venv_torch
python 'PyTorch, with sums of its own' 50 venv_torch
python jax 50 venv_jax
batch_scripts
contained
limited_ended
finish
