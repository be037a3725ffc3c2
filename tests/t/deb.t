#!/usr/bin/env bash
# make deb: what the package holds and says, and that what it unpacks serves a program.
set -u
. tests/t/lib.sh
umask 022
WORK=$(realpath "$WORK")
VERSION=$(sed -n 's/^VERSION *:= *//p' Makefile)

if ! command -v dpkg-deb >/dev/null || ! command -v dpkg-shlibdeps >/dev/null; then
    skip "make deb" "no dpkg-deb and dpkg-shlibdeps (scripts/install-deps cluster)"
    finish
    exit
fi
MULTIARCH=$(gcc -print-multiarch)
FILE=$BUILD/sparseshim_$VERSION-1_$(dpkg --print-architecture).deb
field() { dpkg-deb --field "$FILE" "$1"; }

# packaged VARIABLE=VALUE...: make deb.
packaged() {
    within 300 make --no-print-directory BUILD="$(realpath --relative-to=. "$BUILD")" NVCC= deb "$@"
    [ "$STATUS" -eq 0 ]
}

packaged MAINTAINER='A Site <admin@example.org>' && [ "$(field Maintainer)" = 'A Site <admin@example.org>' ]
tap "$?" "make deb with a MAINTAINER"
cp "$FILE" "$WORK/first.deb"
(umask 077 && packaged MAINTAINER='A Site <admin@example.org>') && cmp "$FILE" "$WORK/first.deb" >"$WORK/out" 2>&1
tap "$?" "make deb again, under another umask: the same bytes"
[[ $(field Depends) =~ ^libc6\ \(\>=\ [0-9.]+\)$ ]] && [ "$(field Recommends)" = "python3 (>= 3.9)" ] && [ "$(field Version)" = "$VERSION-1" ]
tap "$?" "it depends on libc6 alone, $(field Depends), and recommends Python"
dpkg-deb --contents "$FILE" | awk '{ print $6 }' >"$WORK/out"
! grep -vqE '^\./(usr/.*|etc/.*)?$' "$WORK/out"
tap "$?" "nothing outside /usr and /etc"
dpkg-deb --contents "$FILE" | awk '$1 !~ /^-(rw-r--r--|rwxr-xr-x)$/ && $1 !~ /^drwxr-xr-x$/ || $2 != "root/root"' >"$WORK/out"
[ ! -s "$WORK/out" ]
tap "$?" "all belongs to root, with plain modes"
mkdir "$WORK/control" "$WORK/clean"
dpkg-deb --control "$FILE" "$WORK/control"
dpkg-deb --contents "$FILE" | awk '$1 ~ /^-/ && $6 ~ /^\.\/etc\// { print substr($6, 2) }' | sort >"$WORK/etc"
touch "$WORK/control/conffiles"
cmp "$WORK/control/conffiles" "$WORK/etc" >"$WORK/out" 2>&1
tap "$?" "every file of /etc is listed as a configuration file ($(wc -l <"$WORK/etc"))"

dpkg -x "$FILE" "$WORK/clean"
(cd "$WORK/clean" && md5sum --quiet -c "$WORK/control/md5sums") >"$WORK/out" 2>&1 &&
    [ "$(wc -l <"$WORK/control/md5sums")" -eq "$(find "$WORK/clean/usr" -type f | wc -l)" ]
tap "$?" "unpacked, every file has its checksum"
grep -q 'BSD 3-Clause' "$WORK/clean/usr/share/doc/sparseshim/copyright"
tap "$?" "the licence is where Debian looks for it"
SPARSESHIM_ALGORITHM=recursive_doubling PRELOAD=$WORK/clean/usr/lib/$MULTIARCH/libsparseshim.so preloaded 2 fewcalls 3
tap_passed "a preloaded job with its library" 1
within 30 "$WORK/clean/usr/bin/sparseshim" run -n true
grep -qxF "LD_PRELOAD=$WORK/clean/usr/lib/$MULTIARCH/libsparseshim.so" "$WORK/out"
tap "$?" "its command finds its library"
within 30 env -i "$WORK/clean/usr/bin/sparseshim" info
grep -q '^  /etc/sparseshim.conf: ' "$WORK/out"
tap "$?" "it is configured by /etc/sparseshim.conf"
finish
