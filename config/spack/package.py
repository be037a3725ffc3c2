"""Recipe for Spack. It builds the clone that it lies in: link it into a repository of yours as
packages/sparseshim/package.py, and say `spack install sparseshim`. SPARSESHIM_GIT names another
clone."""

import os
from pathlib import Path

from spack.package import *


class Sparseshim(MakefilePackage):
    """Sparse gradient allreduce for unmodified MPI programs, by preload."""

    homepage = "file://" + str(Path(__file__).resolve().parents[2])
    git = os.environ.get("SPARSESHIM_GIT", homepage)

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("bench", default=False, description="Build the MPI program that sparseshim bench runs")
    variant("cuda", default=False, description="Serve buffers in the memory of NVIDIA GPUs")

    depends_on("c", type="build")
    depends_on("mpi", when="+bench")
    # The sparseshim command; the library needs libc alone.
    depends_on("elfutils")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("cuda@12:", type="build", when="+cuda")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def arguments(self):
        spec = self.spec
        nvcc = spec["cuda"].prefix.bin.nvcc if spec.satisfies("+cuda") else ""
        mpicc = spec["mpi"].prefix.bin.mpicc if spec.satisfies("+bench") else ""
        return [
            f"PREFIX={self.prefix}",
            f"MPICC={mpicc}",
            f"NVCC={nvcc}",
            "CLI_LIBS=-lelf",
        ]

    @property
    def build_targets(self):
        return self.arguments() + ["all"]

    @property
    def install_targets(self):
        return self.arguments() + ["install"]
