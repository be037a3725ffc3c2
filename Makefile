# sparseshim: build, test, install. `make help` lists the targets.

PREFIX     ?= /usr/local
DESTDIR    ?=
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
SYSCONFDIR ?= $(PREFIX)/etc
DOCDIR     ?= $(PREFIX)/share/doc/sparseshim
MANDIR     ?= $(PREFIX)/share/man
MODULEDIR  ?= $(PREFIX)/share/modulefiles
PKGCONFIGDIR  ?= $(LIBDIR)/pkgconfig
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

BUILD  ?= build
V      ?= 0
CFLAGS ?= -O2 -g
LDFLAGS ?=
# MPI compilers of MPICH. Debian's plain mpicc may belong to another MPI library.
MPICC  ?= $(shell command -v mpicc.mpich || echo mpicc)
MPIFC  ?= $(shell command -v mpifort.mpich || echo mpifort)
MPIRUN ?= $(shell command -v mpirun.mpich || echo mpirun)
CLANG  ?= clang

# What the command alone links: archives, so that it starts on nodes that have neither library. A site
# without archives links dynamically: make CLI_LIBS='-ljansson -lelf'.
CLI_LIBS ?= -Wl,-Bstatic -ljansson -lelf -lz $(LIBZSTD) -Wl,-Bdynamic
# libelf since 0.189, for compressed sections.
LIBZSTD := $(filter /%,$(shell $(CC) -print-file-name=libzstd.a))

VERSION  := 0.1.0
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes
STANDARD := -std=c17 -D_GNU_SOURCE
DEFINES  := -DSPARSESHIM_VERSION='"$(VERSION)"'
# The same bytes from any directory.
ANYWHERE  = '-ffile-prefix-map=$(CURDIR)=.'
ALL_CFLAGS = $(STANDARD) $(WARNINGS) $(DEFINES) $(ANYWHERE) -I. -fPIC -fvisibility=hidden -pthread $(CFLAGS)
CXXFLAGS ?= -O2 -g
DEPFLAGS = -MMD -MP
# Where mpi.h is; asked once, and only by what needs it.
MPI_INCLUDES = $(filter -I%,$(shell $(MPICC) -show 2>/dev/null))

ifeq ($(V),0)
Q := @
say = @printf '  %-8s %s\n' '$(1)' '$(2)';
else
Q :=
say =
endif

# The simulator is for tests and for predictions; it is not in the preloaded library.
SIM_SRC  := $(sort $(wildcard core/sim/*.c core/trial/*.c))
CORE_SRC := $(filter-out $(SIM_SRC),$(sort $(wildcard core/*/*.c config/*.c)))
SHIM_SRC := $(sort $(filter-out shim/cli/%,$(wildcard shim/*/*.c)))
CLI_SRC  := $(sort $(wildcard shim/cli/*.c))
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/obj/%.o)
SIM_OBJ  := $(SIM_SRC:%.c=$(BUILD)/obj/%.o)
SHIM_OBJ := $(SHIM_SRC:%.c=$(BUILD)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/obj/%.o)

GPU_SRC  := $(filter-out gpu/images.c,$(sort $(wildcard gpu/*.c)))
GPU_CU   := $(sort $(wildcard gpu/*.cu))
GPU_OBJ  := $(GPU_SRC:%.c=$(BUILD)/obj/%.o)

# Without nvcc everything but the library of device buffers is built.
NVCC     ?= $(shell command -v nvcc || command -v /usr/local/cuda/bin/nvcc)
GPU_LIBRARY := $(if $(NVCC),libsparseshim_cuda.so)

# Programs of tests/mpi, tests/fortran and tests/preload lie beside each other in $(BUILD)/tests/mpi,
# those of tests/unit in $(BUILD)/tests/unit, whatever folder their source is in: names are unique.
built = $(addprefix $(BUILD)/tests/$(1)/,$(addsuffix $(3),$(basename $(notdir $(sort $(wildcard $(2)))))))
vpath %.c $(wildcard tests/unit/*/ tests/mpi/*/)
GPU_UNIT := $(filter-out $(if $(NVCC),,%/test_gpu_images),$(call built,gpu,tests/gpu/test_*.c))
UNIT    := $(call built,unit,tests/unit/*/*.c) $(GPU_UNIT)
MPI_PROGS := $(call built,mpi,tests/mpi/*/*.c)
MPI_SO  := $(call built,mpi,tests/preload/*.c,.so)
FORTRAN := $(call built,mpi,tests/fortran/*.f90 tests/fortran/*.f)
APPS    := $(call built,apps,tests/apps/*.c)
GRADIENTS := $(call built,gradients,tests/gradients/*.c)
BENCH   := $(call built,bench,tests/bench/*.c)
FUZZ  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

.PHONY: all check check-unit check-mpi check-cluster check-emulated check-hazards gpu-check gpu-bench check-frameworks check-mpich check-fuzz campaign demo trainings bench-build bench-exact bench-topk bench-nonblocking bench-merging bench-quorum install uninstall lint format asan tsan fuzz \
        tests apps deps clean help
.DELETE_ON_ERROR:

# What config/where.c is compiled with. Build directory: SYSCONFDIR as it is when that is compiled.
# Installed library and command: the way to it from LIBDIR and BINDIR, so that any PREFIX gives the
# same bytes and the tree may be moved; but a SYSCONFDIR that was given to make counts as it is.
way = $(shell realpath -m --relative-to='$(1)' '$(2)')
given = $(filter-out file default undefined,$(origin SYSCONFDIR))
sysconfdir_from = $(if $(given),$(if $(filter /%,$(SYSCONFDIR)),$(SYSCONFDIR),$(error \
                  SYSCONFDIR=$(SYSCONFDIR) does not begin with /)),$(call way,$(1),$(SYSCONFDIR)))
where = -DSPARSESHIM_SYSCONFDIR='"$(1)"' -DSPARSESHIM_LIBDIR='"$(2)"'
WHERE_build   = $(call where,$(SYSCONFDIR),.) -DSPARSESHIM_PROFILES='"$(call way,$(BUILD),config/profiles)"'
WHERE_library = $(call where,$(call sysconfdir_from,$(LIBDIR)),.)
WHERE_command = $(call where,$(call sysconfdir_from,$(BINDIR)),$(call way,$(BINDIR),$(LIBDIR)))

all: $(BUILD)/libsparseshim.so $(BUILD)/sparseshim man $(or $(GPU_LIBRARY:%=$(BUILD)/%),no-nvcc) ## build the library and the command

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(filter %Makefile %.mk,$(MAKEFILE_LIST)) | expand -t 16

# ---- the library and the command ----

$(BUILD)/obj/%_avx2.o: ISA := -mavx2 -mfma -mbmi -mbmi2 -mlzcnt
$(BUILD)/obj/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mbmi -mbmi2 -mlzcnt
ifneq ($(filter x86_64 amd64,$(shell uname -m)),)
ISA_FLAGS = $(ISA)
endif
$(BUILD)/obj/shim/%.o: EXTRA = $(MPI_INCLUDES:-I%=-isystem %)
$(BUILD)/obj/shim/cli/%.o: EXTRA =

# What is seen of them is said by gpu/exports.map.
$(BUILD)/obj/gpu/%.o: EXTRA = -fvisibility=default

$(BUILD)/obj/config/where.o: EXTRA = $(WHERE_build)

COMPILE = $(CC) $(ALL_CFLAGS) $(ISA_FLAGS) $(EXTRA) $(CPPFLAGS) $(DEPFLAGS) -c -o $@ $<
$(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE)

# Written anew where the directories have changed since.
WHERES := library command
$(WHERES:%=$(BUILD)/where/%): $(BUILD)/where/%: FORCE
	@mkdir -p $(@D); printf '%s\n' $(WHERE_$*) | cmp -s - $@ || printf '%s\n' $(WHERE_$*) >$@
$(BUILD)/where/%.o: EXTRA = $(WHERE_$*)
$(WHERES:%=$(BUILD)/where/%.o): $(BUILD)/where/%.o: config/where.c $(BUILD)/where/% Makefile
	$(call say,CC,$< for the $*)
	$(Q)$(COMPILE)
.PHONY: FORCE
FORCE:

LIBRARY_OBJ = $(CORE_OBJ) $(SHIM_OBJ)
LINK_LIBRARY = $(CC) -shared -pthread -Wl,-z,now -Wl,-z,defs -Wl,-z,noexecstack -Wl,--as-needed -Wl,-soname,libsparseshim.so \
    $(if $(wildcard shim/exports.map),-Wl$(comma)--version-script=shim/exports.map) $(CFLAGS) $(LDFLAGS) \
    -o $@ $(filter %.o,$^)
comma := ,
$(BUILD)/libsparseshim.so: $(LIBRARY_OBJ) $(wildcard shim/exports.map)
	$(call say,LD,$@)
	$(Q)$(LINK_LIBRARY)
$(BUILD)/install/libsparseshim.so: $(LIBRARY_OBJ:$(BUILD)/obj/config/where.o=$(BUILD)/where/library.o) $(wildcard shim/exports.map)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(LINK_LIBRARY)

$(BUILD)/libsparseshim_core.a: $(CORE_OBJ) $(SIM_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/sparseshim: $(CLI_OBJ) $(BUILD)/libsparseshim_core.a $(BUILD)/cli-libs
$(BUILD)/install/sparseshim: $(CLI_OBJ) $(BUILD)/where/command.o $(BUILD)/libsparseshim_core.a $(BUILD)/cli-libs
$(BUILD)/sparseshim $(BUILD)/install/sparseshim:
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -pthread $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(CLI_LIBS) -lm

# Tried out where they have changed since.
$(CLI_OBJ): | $(BUILD)/cli-libs
$(BUILD)/cli-libs: FORCE
	@mkdir -p $(@D); printf '%s\n' '$(CLI_LIBS)' | cmp -s - $@ || \
	    if printf '%s\n' '#include <jansson.h>' '#include <libelf.h>' \
	        'int main(void) { return json_null() == 0 || elf_begin(0, ELF_C_READ, 0) == 0; }' | \
	        $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -x c -o $@.try - -x none $(CLI_LIBS); then \
	        rm -f $@.try; printf '%s\n' '$(CLI_LIBS)' >$@; \
	    else \
	        echo "The command needs jansson and libelf: their headers, and libjansson.a, libelf.a and libz.a." \
	            "Debian has them in libjansson-dev, libelf-dev and zlib1g-dev (scripts/install-deps build)." \
	            "Without the archives: make CLI_LIBS='-ljansson -lelf'" >&2; exit 1; \
	    fi

# ---- the library of device buffers ----

# A fat binary for each file of kernels. What is built here is for GPU_ARCHS, what is installed for
# those of the list that nvcc knows (or GPU_ARCHS, where it is given to make); both also have PTX of
# the last one. So `make` does not take minutes.
GPU_ARCHS ?= 90
GPU_LISTED := 70 75 80 86 89 90 100
ifneq ($(NVCC),)
GPU_INSTALLED := $(if $(filter-out file default undefined,$(origin GPU_ARCHS)),$(GPU_ARCHS),$(filter \
                 $(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code)),$(GPU_LISTED)))
FATBINARY := $(dir $(realpath $(NVCC)))fatbinary
# Drivers for an earlier CUDA 12 than the one that packed it cannot unpack what is packed so.
FATBINARY_SMALL = $(if $(filter 12%,$(CUDA_VERSION)),,$(if $(shell $(FATBINARY) --help | grep -e --compress-mode),--compress-mode=size))
endif
# As cuDriverGetVersion has it: 13000.
CUDA_VERSION = $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | awk '{ print $$1 * 1000 + $$2 * 10 }')
NVCC_FLAGS := -std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -I. $(GPU_FLAGS)
# nvcc hashes the directory into names that only the file itself sees.
SAME_NAMES := sed -i 's/_INTERNAL_[0-9a-f]\{8\}_/_INTERNAL_00000000_/g'
define GPU_ARCH
$(BUILD)/gpu/%.$(1).ptx: gpu/%.cu
	@mkdir -p $$(@D)
	$$(call say,NVCC,$$< for sm_$(1))
	$$(Q)$(NVCC) $(NVCC_FLAGS) -arch=compute_$(1) -MD -MF $$@.d -MT $$@ -ptx -o $$@ $$< && $$(SAME_NAMES) $$@
$(BUILD)/gpu/%.$(1).cubin: $(BUILD)/gpu/%.$(1).ptx
	$$(Q)$(NVCC) -fmad=false -arch=sm_$(1) -cubin -o $$@ $$<
endef
$(foreach arch,$(sort $(GPU_LISTED) $(GPU_ARCHS)),$(eval $(call GPU_ARCH,$(arch))))
.SECONDARY: $(foreach cu,$(GPU_CU:gpu/%.cu=%),$(foreach arch,$(GPU_LISTED),$(BUILD)/gpu/$(cu).$(arch).ptx $(BUILD)/gpu/$(cu).$(arch).cubin))
gpu_parts = $(foreach arch,$(1),$(BUILD)/gpu/%.$(arch).cubin) $(BUILD)/gpu/%.$(lastword $(1)).ptx
JOIN_FATBIN = $(FATBINARY) -64 $(FATBINARY_SMALL) --create=$@ \
    $(foreach part,$(filter-out %/archs,$^),--image3=kind=$(if $(filter %.ptx,$(part)),ptx,elf),sm=$(lastword $(subst ., ,$(basename $(part)))),file=$(part))
# Written anew where the list has changed since.
$(BUILD)/gpu/archs $(BUILD)/install/gpu/archs: FORCE
	@mkdir -p $(@D); echo '$(FATBIN_ARCHS)' | cmp -s - $@ || echo '$(FATBIN_ARCHS)' >$@
$(BUILD)/gpu/archs: FATBIN_ARCHS = $(GPU_ARCHS)
$(BUILD)/install/gpu/archs: FATBIN_ARCHS = $(GPU_INSTALLED)
$(BUILD)/gpu/%.fatbin: $(call gpu_parts,$(GPU_ARCHS)) $(BUILD)/gpu/archs
	$(Q)$(JOIN_FATBIN)
$(BUILD)/install/gpu/%.fatbin: $(call gpu_parts,$(GPU_INSTALLED)) $(BUILD)/install/gpu/archs
	@mkdir -p $(@D)
	$(Q)$(JOIN_FATBIN)
IMAGES_FLAGS = -fvisibility=default -DGPU_IMAGE_DIR='"$(@D)"' -DGPU_CUDA_VERSION=$(CUDA_VERSION)
$(BUILD)/gpu/images.o: $(GPU_CU:gpu/%.cu=$(BUILD)/gpu/%.fatbin)
$(BUILD)/install/gpu/images.o: $(GPU_CU:gpu/%.cu=$(BUILD)/install/gpu/%.fatbin)
$(BUILD)/gpu/images.o $(BUILD)/install/gpu/images.o: gpu/images.c Makefile
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) $(DEPFLAGS) $(IMAGES_FLAGS) -c -o $@ $<
$(BUILD)/libsparseshim_cuda.so: $(BUILD)/gpu/images.o
$(BUILD)/install/libsparseshim_cuda.so: $(BUILD)/install/gpu/images.o
$(BUILD)/libsparseshim_cuda.so $(BUILD)/install/libsparseshim_cuda.so: $(GPU_OBJ) $(BUILD)/obj/core/select/selecting.o $(BUILD)/obj/core/wire/bounds.o $(BUILD)/obj/core/wire/value_buckets.o gpu/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-z,now -Wl,-z,defs -Wl,-z,noexecstack -Wl,--as-needed -Wl,-soname,libsparseshim_cuda.so \
	    -Wl,--version-script=gpu/exports.map $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -ldl
gpu-registers: $(or $(GPU_LIBRARY:%=$(BUILD)/%),no-nvcc) ## registers, spills and shared memory of each kernel, for the last of GPU_ARCHS
	$(Q)[ -n "$(GPU_LIBRARY)" ] || exit 1; for ptx in $(GPU_CU:gpu/%.cu=$(BUILD)/gpu/%.$(lastword $(GPU_ARCHS)).ptx); do \
	    $(dir $(FATBINARY))ptxas -v -fmad false -arch=sm_$(lastword $(GPU_ARCHS)) -o /dev/null $$ptx 2>&1; done | \
	    awk '/Compiling entry/ { split($$0, q, "\047"); name = q[2] } \
	         /spill/ { spill = $$5 } \
	         /Used/ { shared = match($$0, /[0-9]+ bytes smem/) ? substr($$0, RSTART, RLENGTH) : ""; \
	                  printf "%-26s %3d registers  %3d bytes spilled  %s\n", name, $$5, spill, shared }' | sort
.PHONY: gpu-registers
no-nvcc:
	@echo "no nvcc: device buffers are not built (scripts/install-deps gpu)"
.PHONY: no-nvcc

# ---- manual pages: the option table and the verbs' help come from the command ----

man: $(BUILD)/man/sparseshim.1 $(BUILD)/man/sparseshim.7 ## the manual pages
.PHONY: man
SAY = env -i $(BUILD)/sparseshim
$(BUILD)/man/%: config/%.in $(BUILD)/sparseshim
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)while IFS= read -r line; do case $$line in \
	    .\\\"*) ;; \
	    @OPTIONS@) $(SAY) info -r ;; \
	    @LEGEND@) $(SAY) report --legend=roff ;; \
	    @HELP*@) verb=$${line#@HELP}; $(SAY) help $${verb%@} | sed 's/-/\\-/g' ;; \
	    *) printf '%s\n' "$$line" | sed 's/@VERSION@/$(VERSION)/' ;; \
	    esac; done <$< >$@

# ---- tests, applications, benchmarks ----

$(BUILD)/tests/unit/test_report $(BUILD)/tests/unit/test_report_read $(BUILD)/tests/unit/test_report_observe $(BUILD)/tests/unit/test_report_rounds: \
    $(addprefix $(BUILD)/obj/shim/cli/,report_read.o series_read.o)
$(BUILD)/tests/unit/test_report $(BUILD)/tests/unit/test_report_read $(BUILD)/tests/unit/test_report_observe $(BUILD)/tests/unit/test_report_rounds: UNIT_LIBS = $(CLI_LIBS)
$(BUILD)/tests/unit/test_learn: $(BUILD)/obj/shim/cli/learn_rules.o
$(BUILD)/tests/unit/%: %.c $(BUILD)/libsparseshim_core.a
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) $(DEPFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) $(filter %.a,$^) \
	    $(UNIT_LIBS) -lcmocka -lm

# Kernels for GPUs, compiled for this machine against an emulation, as they are and with a planted
# fault each (objects without debug information: they are compiled once and looked at never).
EMULATED := $(BUILD)/tests/gpu/emulated
EMULATED_CXX = $(CXX) -std=c++17 -Wall -Wextra -ffp-contract=off -fsanitize=alignment -fsanitize-undefined-trap-on-error \
               -fPIC -fvisibility=hidden -include tests/gpu/emulate.h
EMULATED_OBJ := $(GPU_CU:gpu/%.cu=$(EMULATED)/%.o) $(EMULATED)/emulate.o
PLANTED := $(patsubst %,$(BUILD)/tests/gpu/planted/%.so,$(shell tests/gpu/plant))
$(EMULATED)/%.o: gpu/%.cu tests/gpu/emulate.h
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(EMULATED_CXX) -I. $(CXXFLAGS) $(DEPFLAGS) -c -o $@ -x c++ $<
$(EMULATED)/emulate.o: tests/gpu/emulate.cpp tests/gpu/emulate.h
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(EMULATED_CXX) -I. $(CXXFLAGS) $(DEPFLAGS) -c -o $@ $<
$(BUILD)/tests/gpu/kernels.so: $(EMULATED_OBJ)
	$(call say,LD,$@)
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $^
# The same with every access watched; those compiled for it call what the watcher has in place of the
# library of that sanitizer.
WATCHED := $(BUILD)/tests/gpu/watched
WATCHED_OBJ := $(GPU_CU:gpu/%.cu=$(WATCHED)/%.o) $(WATCHED)/hazards.o
WATCHED_CXX = $(EMULATED_CXX) -DEMULATED_WATCHED -g -O1
$(WATCHED)/%.o: gpu/%.cu tests/gpu/emulate.h
	@mkdir -p $(@D)
	$(call say,CXX,$< watched)
	$(Q)$(WATCHED_CXX) -fsanitize=thread -I. $(DEPFLAGS) -c -o $@ -x c++ $<
$(WATCHED)/hazards.o: tests/gpu/hazards.cpp tests/gpu/emulate.h
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(WATCHED_CXX) -I. $(DEPFLAGS) -c -o $@ $<
$(BUILD)/tests/gpu/watched.so: $(WATCHED_OBJ) $(EMULATED)/emulate.o
	$(call say,LD,$@)
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $^ -ldl
$(WATCHED)/hazard_cases.o: tests/gpu/hazard_cases.cu gpu/subset.h tests/gpu/emulate.h
	@mkdir -p $(@D)
	$(call say,CXX,$< watched)
	$(Q)$(WATCHED_CXX) -fsanitize=thread -I. $(DEPFLAGS) -c -o $@ -x c++ $<
$(BUILD)/tests/gpu/hazard_cases.so: $(addprefix $(WATCHED)/,hazard_cases.o hazards.o) $(EMULATED)/emulate.o
	$(call say,LD,$@)
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $^ -ldl
$(BUILD)/tests/gpu/test_gpu_hazards: $(BUILD)/tests/gpu/hazard_cases.so
$(PLANTED): $(BUILD)/tests/gpu/planted/%.so: tests/gpu/plant $(EMULATED_OBJ)
	@mkdir -p $(@D)
	$(call say,PLANT,$*)
	$(Q)dir=$(BUILD)/tests/gpu/planted/$*; kernels=$$(tests/gpu/plant $* $$dir) && \
	    file=$$dir/gpu/$$kernels.cu && { [ -e $$file ] || file=gpu/$$kernels.cu; } && \
	    $(EMULATED_CXX) -w -O0 -I$$dir -I. -c -o $$dir/kernels.o -x c++ $$file && \
	    $(CXX) -shared $(LDFLAGS) -o $@ $$dir/kernels.o \
	    $$(printf '%s\n' $(EMULATED_OBJ) | grep -v "/$$kernels.o$$")
# Programs for real devices, which need no library of tests; a test runs them on the driver for tests.
GPU_PROGS := $(addprefix $(BUILD)/tests/gpu/gpu_,check large bench)
# All but what the preloaded library asks, which needs the kernels of a device.
GPU_TESTED := $(filter-out %/places.o %/staging.o,$(GPU_OBJ))
$(GPU_UNIT) $(GPU_PROGS): $(BUILD)/tests/gpu/%: tests/gpu/%.c $(GPU_TESTED) $(BUILD)/libsparseshim_core.a $(BUILD)/tests/gpu/kernels.so
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) $(DEPFLAGS) $(LDFLAGS) -o $@ $< $(GPU_TESTED) $(BUILD)/libsparseshim_core.a $(if $(filter $@,$(GPU_UNIT)),-lcmocka) -lm -ldl
$(BUILD)/tests/gpu/test_gpu_planted: $(PLANTED)
$(addprefix $(BUILD)/tests/gpu/test_gpu_,claims costs device encode link memory order place staging training): $(BUILD)/tests/gpu/driver/libcuda.so.1
$(BUILD)/tests/gpu/test_gpu_staging: GPU_TESTED += $(BUILD)/obj/gpu/places.o $(BUILD)/obj/gpu/staging.o
$(BUILD)/tests/gpu/test_gpu_staging: $(BUILD)/obj/gpu/places.o $(BUILD)/obj/gpu/staging.o
$(BUILD)/tests/gpu/test_gpu_device: $(BUILD)/tests/gpu/driver/libcuda.so.1 $(GPU_PROGS)
$(BUILD)/tests/gpu/test_gpu_images: $(BUILD)/libsparseshim_cuda.so $(BUILD)/tests/gpu/driver_types.checked
$(BUILD)/tests/gpu/driver_types.checked: tests/gpu/driver_types.c gpu/driver.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(STANDARD) -fsyntax-only -I. -isystem $(dir $(realpath $(NVCC)))../include $< && touch $@
$(BUILD)/tests/gpu/driver11/libcuda.so.1: EXTRA = -DCUDA_11
$(BUILD)/tests/gpu/driver/libcuda.so.1 $(BUILD)/tests/gpu/driver11/libcuda.so.1: tests/gpu/libcuda.cpp tests/gpu/emulate.h gpu/driver.h
	@mkdir -p $(@D)
	$(call say,CXX,$< $(EXTRA))
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -I. $(CXXFLAGS) $(EXTRA) -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 $(LDFLAGS) -o $@ $< -ldl

MPI_COMPILE = $(MPICC) -std=c17 -D_GNU_SOURCE $(WARNINGS) -I. -pthread $(CFLAGS) $(EXTRA) $(DEPFLAGS) $(LDFLAGS) \
    -o $@ $(filter %.c %.a,$^) -lm -ldl
define MPI_PROGRAM
	@mkdir -p $(@D)
	$(call say,MPICC,$< $(EXTRA))
	$(Q)$(MPI_COMPILE)
endef
$(BUILD)/tests/mpi/oracle_fastmath: EXTRA = -O3 -ffast-math
$(BUILD)/tests/mpi/oracle_fastmath: oracle.c
	$(MPI_PROGRAM)
$(BUILD)/tests/mpi/%: %.c
	$(MPI_PROGRAM)
$(BUILD)/tests/%: tests/%.c
	$(MPI_PROGRAM)
$(BENCH): $(BUILD)/libsparseshim_core.a

$(BUILD)/tests/mpi/%.so: tests/preload/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE $(WARNINGS) -I. $(MPI_INCLUDES:-I%=-isystem %) $(CFLAGS) $(DEPFLAGS) -fPIC -shared -o $@ $< -lm -ldl

define FORTRAN_PROGRAM
	@mkdir -p $(@D)/mod_$*
	$(call say,MPIFC,$<)
	$(Q)$(MPIFC) -g -O1 -w -J$(@D)/mod_$* -o $@ $<
endef
$(BUILD)/tests/mpi/nb_mixed_f08 $(BUILD)/tests/mpi/nb_mixed_mpi: tests/fortran/nb_mixed.inc
$(BUILD)/tests/mpi/%: tests/fortran/%.f90
	$(FORTRAN_PROGRAM)
$(BUILD)/tests/mpi/%: tests/fortran/%.f
	$(FORTRAN_PROGRAM)

FUZZ_FLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
$(BUILD)/fuzz/%: tests/fuzz/%.c $(CORE_SRC) $(wildcard core/*/*.h)
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)$(CLANG) $(STANDARD) -g -O1 -I. -mbmi2 $(FUZZ_FLAGS) -o $@ $< core/wire/wire.c core/wire/bounds.c core/wire/values.c core/wire/value_buckets.c core/wire/rice.c core/base/types.c

tests: all $(UNIT) $(BUILD)/tests/gpu/driver11/libcuda.so.1 $(MPI_PROGS) $(GRADIENTS) $(MPI_SO) $(FORTRAN) $(BUILD)/tests/mpi/oracle_fastmath apps
apps: $(APPS)
deps:
	@scripts/install-deps

check: ## every test; installs what is missing first
	@scripts/install-deps build tests demo
	@begin=$$(date +%s); $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) tests && echo "build: $$(($$(date +%s) - begin)) s"
	@$(MAKE) --no-print-directory check-unit
	@$(MAKE) --no-print-directory check-fuzz
	@$(MAKE) --no-print-directory check-mpi
	@echo "check: all passed"

check-unit: $(UNIT) ## unit tests and the simulator
	CMOCKA_MESSAGE_OUTPUT=TAP prove -j$(shell nproc) --timer --exec '' $(UNIT)

# So many files at a time, the trainings first, which take longest.
MPI_JOBS ?= 2
# What an installation on a cluster takes, tested by check-cluster.
CLUSTER_T := $(wildcard $(addprefix tests/t/,modules.t slurm.t deb.t spack.t))
check-mpi: tests ## MPI programs, interposition, command line
	BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments $(filter-out $(CLUSTER_T),$(shell ls -r tests/t/*.t))
	@$(MAKE) --no-print-directory check-emulated EMULATED_T=collectives

check-cluster: tests ## Slurm, modulefiles under Lmod and environment-modules, packages; installs what is missing first
	@scripts/install-deps build tests cluster
	@BUILD=$(BUILD) prove --timer --failures --comments $(CLUSTER_T)

check-frameworks: tests ## trainings in PyTorch and jax, and the manual's recipes for them; installs both (2 GB, minutes)
	@scripts/install-deps build tests frameworks
	@FRAMEWORKS=install BUILD=$(BUILD) prove --timer --failures --comments tests/t/train_python.t tests/t/recipes.t

# Open MPI is the same under either.
check-mpich: tests ## the MPI tests under the newest MPICH of PyPI (pip; MPICH_WHEEL=mpich==VERSION)
	@BUILD=$(BUILD) scripts/with-mpich-wheel $(BUILD)/mpich-venv \
	    prove --timer --failures --comments $(filter-out %/interpose_openmpi.t $(CLUSTER_T),$(sort $(wildcard tests/t/*.t)))

# Buffers in the memory of a device, of a pool, of two devices and of the host, by turns.
EMULATED_T := collectives decisions files gradients harmless interpose_failing interpose_fortran interpose_fpenv \
              interpose_oracle interpose_programs interpose_stack interpose_together nonblocking_beside \
              nonblocking_callbacks nonblocking_complete nonblocking_edges nonblocking_languages nonblocking_layers \
              nonblocking_merged nonblocking_mixed nonblocking_order nonblocking_random nonblocking_small \
              nonblocking_threads observe profiles programs quorum quorum_edges random_programs refusals reproducible \
              topk_advice topk_api topk_conserve topk_identity topk_lossscale trace train_fmnist train_hyperplane \
              train_langid
# All but those of long vectors, which take many minutes so.
HAZARDS_T := kernels place claims encode order memory costs training
check-hazards: tests $(if $(GPU_LIBRARY),$(BUILD)/tests/gpu/watched.so) ## unit tests of kernels, every access watched for races, bounds and what nobody has written
	$(if $(GPU_LIBRARY),,@echo "no nvcc: left out" && exit; )CMOCKA_MESSAGE_OUTPUT=TAP TEST_CUDA_KERNELS=$(abspath $(BUILD))/tests/gpu/watched.so prove -j$(MPI_JOBS) --timer --failures $(HAZARDS_T:%=$(BUILD)/tests/gpu/test_gpu_%)

check-emulated: tests ## MPI tests with their buffers in device memory, on a driver for tests
	$(if $(GPU_LIBRARY),,@echo "no nvcc: left out" && exit; )ON_DEVICE=DD,PP,DS,HH BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments $(EMULATED_T:%=tests/t/%.t)
	$(if $(filter observe,$(EMULATED_T)),GPU_FULL=1 CMOCKA_MESSAGE_OUTPUT=TAP prove --timer --exec '' $(addprefix $(BUILD)/tests/gpu/test_gpu_,kernels link training) && \
	    GPU_FULL=1 BUILD=$(BUILD) prove --timer --failures --comments tests/t/device.t)

check-fuzz: $(FUZZ) ## a short run of the fuzzers over the kept corpus
	$(Q)for f in $(FUZZ); do name=$${f##*/fuzz_}; mkdir -p $(BUILD)/corpus/$$name; \
	    echo "fuzz $$name"; begin=$$(date +%s); timeout -k 5 120 $$f -runs=200000 -max_total_time=20 -seed=1 -print_final_stats=0 -verbosity=0 \
	    $(BUILD)/corpus/$$name tests/fuzz/corpus/$$name || exit 1; \
	    echo "fuzz $$name: $$(($$(date +%s) - begin)) s"; done

fuzz: $(FUZZ) ## fuzz for FUZZ_SECONDS each (default 600)
	$(Q)for f in $(FUZZ); do name=$${f##*/fuzz_}; mkdir -p $(BUILD)/corpus/$$name; \
	    $$f -max_total_time=$(or $(FUZZ_SECONDS),600) $(BUILD)/corpus/$$name tests/fuzz/corpus/$$name || exit 1; done

campaign: tests ## PROGRAMS random programs, bare and preloaded (default 10000), SEED=S; all cases of harmless.t; check-frameworks
	@BUILD=$(BUILD) scripts/campaign --programs $(or $(PROGRAMS),10000) --seed $(or $(SEED),1) $(ARGS)
	@HARMLESS_FORMS=all BUILD=$(BUILD) prove --timer --failures tests/t/harmless.t
	@$(MAKE) --no-print-directory check-frameworks

asan: ## unit and MPI tests under AddressSanitizer and UBSan
	@scripts/install-deps build tests
	@scripts/sanitize asan
tsan: ## MPI tests under ThreadSanitizer
	@scripts/install-deps build tests
	@scripts/sanitize tsan

gpu-check: ## tests on a machine with nvcc and a GPU, at most 8 minutes (LIMIT=480); MPICH=FILE.whl where it has no MPI; GPU_ARCHS: other than its GPUs
gpu-bench: ## measurements there, each beside its goal, the same way
gpu-check gpu-bench: gpu-%:
	@BUILD=$(BUILD) scripts/gpu $* $(MPICH)

demo: ## the main job: a real training, dense and preloaded, side by side
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory all apps
	@BUILD=$(BUILD) scripts/demo

bench-build: $(BENCH) $(APPS) ## all benchmarks, built and nothing more

bench-exact: ## measurements of exact mode on the virtual cluster (root)
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all $(BENCH)
	@BUILD=$(BUILD) scripts/bench-exact

bench-nonblocking: ## measurements of nonblocking calls and the sparse allgather on the virtual cluster (root)
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all apps $(BENCH)
	@BUILD=$(BUILD) scripts/bench-nonblocking

bench-merging: $(BENCH) ## the planner of merged calls: its time, Algorithm 1 against the optimum, the OMGS-SGD paper's tables
	@BUILD=$(BUILD) scripts/bench-merging

bench-quorum: ## partial allreduces, on this machine: eager-SGD's micro-benchmark, and trainings with late ranks; half an hour
	@$(MAKE) --no-print-directory all apps $(BUILD)/tests/bench/bench_quorum $(BUILD)/tests/mpi/yields.so
	@BUILD=$(BUILD) scripts/bench-quorum

trainings: ## three trainings, dense and top-k in paired seeds, with plots; hours, can be resumed; ARGS=--help
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all apps $(MPI_SO)
	@BUILD=$(BUILD) scripts/trainings $(ARGS)

bench-topk: ## measurements of top-k on the virtual cluster (root)
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all $(BENCH)
	@BUILD=$(BUILD) scripts/bench-topk

# ---- keeping house ----

FORMATTED := $(wildcard core/*/*.[ch] core/*/*.inc config/*.[ch] shim/*.[ch] shim/*/*.[ch] gpu/*.[ch] gpu/*.cu tests/*/*.[ch] tests/*/*/*.[ch] tests/gpu/*.cpp)
SCRIPTS := $(shell grep -lE '^\#!.*(ba)?sh' scripts/* tests/t/* .ci/run 2>/dev/null) config/completion.bash
PYTHON  := $(shell grep -lE '^\#!.*python' scripts/*) $(wildcard tests/*/*.py)

lint: all ## clang-format, folder rules, clang-tidy, cppcheck, shellcheck, pyflakes
	@scripts/install-deps build lint
	BUILD=$(BUILD) scripts/layers
	clang-format --dry-run -Werror $(FORMATTED)
	clang-tidy --quiet --warnings-as-errors='*' $(filter-out %_avx2.c %_avx512.c,$(CORE_SRC) $(SIM_SRC) $(CLI_SRC) $(SHIM_SRC) $(GPU_SRC)) -- \
	    $(STANDARD) $(DEFINES) -I. $(MPI_INCLUDES:-I%=-isystem %)
	cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr --suppress=missingInclude \
	    -DSPARSESHIM_VERSION='""' -D__x86_64__ -I. core config shim $(GPU_SRC)
	shellcheck -x $(SCRIPTS)
	pyflakes3 $(PYTHON)

format: ## rewrite the sources in the house's format
	clang-format -i $(FORMATTED)

include config/install.mk

clean: ## remove build/
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -path '*-venv' -prune -o -type f -name '*.d' -print 2>/dev/null)
