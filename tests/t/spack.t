#!/usr/bin/env bash
# The recipe for Spack: its syntax, what it declares, and that make takes what it is given; with
# SPACK_ROOT, that Spack itself can concretize it.
set -u
. tests/t/lib.sh
RECIPE=config/spack/package.py

# Spack's directives, as far as the recipe uses them, print what they are given.
cat >"$WORK/declared.py" <<'END_OF_PYTHON'
import sys, types

class Value(str):
    def __getattr__(self, name):
        return Value(f"{self}/{name}")

class Spec(dict):
    def __init__(self, variants):
        self.variants = variants
    def __missing__(self, name):
        return types.SimpleNamespace(prefix=Value("/opt/" + name))
    def satisfies(self, what):
        return what in self.variants

package = types.ModuleType("spack.package")
def says(name):
    return lambda *given, **named: print(name, *given, *(f"{k}={v}" for k, v in named.items()))
for name in ("license", "version", "variant", "depends_on", "conflicts"):
    setattr(package, name, says(name))
package.MakefilePackage = type("MakefilePackage", (), {})
sys.modules["spack"] = types.ModuleType("spack")
sys.modules["spack.package"] = package
space = {"__file__": sys.argv[1], "__name__": "recipe"}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), space)
recipe = space["Sparseshim"]()
print("base", type(recipe).__mro__[1].__name__)
for variants in ((), ("+cuda",), ("+bench",)):
    recipe.spec, recipe.prefix = Spec(variants), "/opt/sparseshim"
    print("build", *variants, *recipe.build_targets, sep="\t")
    print("install", *variants, *recipe.install_targets, sep="\t")
END_OF_PYTHON

within 30 python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$RECIPE"
[ "$STATUS" -eq 0 ]
tap "$?" "the recipe is Python"
within 30 python3 "$WORK/declared.py" "$RECIPE"
cp "$WORK/out" "$WORK/declared"
for line in 'base MakefilePackage' 'license BSD-3-Clause' 'depends_on mpi when=+bench' 'depends_on elfutils' \
    'depends_on cuda@12: type=build when=+cuda'; do
    grep -qxF "$line" "$WORK/declared"
    tap "$?" "it declares: $line"
done
grep -qP '^build\t.*\tNVCC=\t' "$WORK/declared" && grep -qP '^build\t\+cuda\t.*\tNVCC=/opt/cuda/bin/nvcc\t' "$WORK/declared"
tap "$?" "nvcc with +cuda, none without"
grep -qP '^build\tPREFIX.*\tMPICC=\t' "$WORK/declared" && grep -qP '^build\t\+bench\t.*\tMPICC=/opt/mpi/bin/mpicc\t' "$WORK/declared"
tap "$?" "mpicc with +bench, none without: the library and the command need no MPI"
for target in all install; do
    mapfile -t arguments < <(grep -P "^(build|install)\tPREFIX.*\t$target\$" "$WORK/declared" | cut -f 2- | tr '\t' '\n')
    within 60 make -n BUILD="$WORK/build" "${arguments[@]}"
    [ "$STATUS" -eq 0 ] && grep -q -- '-lelf -lm' "$WORK/out" && ! grep -q bench_allreduce "$WORK/out"
    tap "$?" "make knows the target $target and takes the arguments"
done

if [ -z "${SPACK_ROOT:-}" ]; then
    skip "spack spec" "SPACK_ROOT is not set"
else
    mkdir -p "$WORK/repo/packages/sparseshim"
    printf 'repo:\n  namespace: own\n' >"$WORK/repo/repo.yaml"
    ln -s "$PWD/$RECIPE" "$WORK/repo/packages/sparseshim/package.py"
    within 600 "$SPACK_ROOT/bin/spack" -C "$WORK/repo" -c "repos:[$WORK/repo]" spec sparseshim
    [ "$STATUS" -eq 0 ] && grep -q 'sparseshim@' "$WORK/out"
    tap "$?" "spack spec sparseshim"
fi
finish
