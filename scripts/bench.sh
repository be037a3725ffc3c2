# shellcheck shell=bash
# Shared by the benchmarks, which source this file from the repository root. Benchmarks on the virtual
# cluster (root) set VCLUSTER_PREFIX to its name.

BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
export VCLUSTER_PREFIX
OUT=$BUILD/bench
library=$BUILD/libsparseshim.so
mkdir -p "$OUT"

cluster() { # HOSTS RATE; it is taken down at the end
    trap 'scripts/vcluster down >/dev/null 2>&1 || true' EXIT
    scripts/vcluster up -n "$1" --rate "$2" >/dev/null 2>&1 || {
        echo "${0##*/}: the virtual cluster cannot be made; root and iproute2 are needed" >&2
        exit 1
    }
}

on_cluster() { # SECONDS ARGUMENTS OF vcluster run...
    local limit=$1
    shift
    timeout -k 5 "$limit" scripts/vcluster run -x UCX_RNDV_THRESH=inf "$@"
}

median() { # COLUMN FILE [VALUE OF THE FIRST COLUMN [OF THE SECOND]]
    awk -F, -v c="$1" -v l="${3-}" -v m="${4-}" '(l == "" || $1 == l) && (m == "" || $2 == m) { print $c }' "$2" | sort -g |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# run_parts "PART..." PART...: runs the parts that were asked for, or all; part_NAME runs a part. NEEDS:
# files of BUILD that the parts run. --help prints the parts, and the comment that begins the script.
run_parts() {
    local known=$1 part parts=("${@:2}")
    if [[ ${parts[0]-} == --help ]]; then
        echo "usage: scripts/${0##*/} [${known// /] [}]"
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "scripts/${0##*/}"
        exit
    fi
    ((${#parts[@]})) || read -ra parts <<<"$known"
    for part in "${parts[@]}"; do
        if [[ " $known " != *" $part "* ]]; then
            echo "usage: scripts/${0##*/} [${known// /] [}]" >&2
            exit 2
        fi
    done
    # shellcheck disable=SC2086
    BUILD=$BUILD scripts/ready $NEEDS
    for part in "${parts[@]}"; do "part_$part"; done
}
