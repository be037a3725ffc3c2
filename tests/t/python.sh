# shellcheck shell=bash
# Python for the tests: mpi4py from PyPI, built against Debian's MPICH, in an environment of its own,
# $BUILD/venv. Sourced after lib.sh.

VENV=$BUILD/venv
MPI4PY=4.1.2
JAX=0.10.2
MPI4JAX=0.9.1.post2
PYTHON3=/usr/bin/python3
# The ranks share the cores: threads that numpy's BLAS adds to each wait for one another.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# from_pypi OPTION... PACKAGE...: into $VENV. Without optimization the build takes half a minute
# instead of two.
from_pypi() {
    MPICC=$(command -v mpicc.mpich) CFLAGS='-O0 -g0' timeout -k 5 600 "$VENV/bin/pip" install \
        --disable-pip-version-check -q "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
}

# Succeeds if there is mpi4py. If it is missing, one test builds it while the others wait.
have_mpi4py() {
    [ -e "$VENV/ready-$MPI4PY" ] && return
    local lock
    exec {lock}>"$BUILD/venv.lock"
    flock "$lock"
    make_mpi4py
    local result=$?
    exec {lock}>&-
    return "$result"
}

make_mpi4py() {
    [ -e "$VENV/ready-$MPI4PY" ] && return
    rm -rf "$VENV"
    "$PYTHON3" -m venv "$VENV" >"$WORK/out" 2>"$WORK/err" &&
        from_pypi --no-binary mpi4py "mpi4py==$MPI4PY" numpy && touch "$VENV/ready-$MPI4PY"
    [ -e "$VENV/ready-$MPI4PY" ] && return
    tail -n 5 "$WORK/err" | sed 's/^/# /'
    return 1
}

# Whether there is jax with mpi4jax beside mpi4py; made only where FRAMEWORKS=install, as that takes
# minutes and 600 MB.
have_jax() {
    local ready=$VENV/ready-jax-$JAX-$MPI4JAX
    have_mpi4py || return
    [ -e "$ready" ] && return
    [ "${FRAMEWORKS:-}" = install ] && from_pypi "jax==$JAX" cython setuptools wheel nanobind &&
        from_pypi --no-build-isolation "mpi4jax==$MPI4JAX" && touch "$ready" && return
    [ "${FRAMEWORKS:-}" = install ] && tail -n 5 "$WORK/err" | sed 's/^/# /'
    return 1
}

# Whether there is Debian's PyTorch, and mpi4py for it in $WORK/path: it wants Debian's numpy.
have_torch() {
    [ -e /usr/lib/python3/dist-packages/torch/__init__.py ] && have_mpi4py || return
    mkdir -p "$WORK/path" && ln -sfn "$VENV"/lib/python3*/site-packages/mpi4py "$WORK/path/mpi4py"
}

# have_wheels FOLDER PACKAGE...: mpi4py's wheel with those of an MPI library, in $BUILD/FOLDER.
have_wheels() {
    local folder=$BUILD/$1
    shift
    [ "$(cat "$folder/ready" 2>/dev/null)" = "$MPI4PY $*" ] && return
    rm -rf "$folder"
    "$PYTHON3" -m venv "$folder" >"$WORK/out" 2>"$WORK/err" &&
        timeout -k 5 300 "$folder/bin/pip" install --disable-pip-version-check -q \
            --only-binary :all: "mpi4py==$MPI4PY" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null &&
        echo "$MPI4PY $*" >"$folder/ready"
}
