# sparseshim: build, test, install. `make help` lists the targets.

PREFIX     ?= /usr/local
DESTDIR    ?=
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
SYSCONFDIR ?= $(PREFIX)/etc
DOCDIR     ?= $(PREFIX)/share/doc/sparseshim
MANDIR     ?= $(PREFIX)/share/man

BUILD  ?= build
V      ?= 0
CFLAGS ?= -O2 -g
LDFLAGS ?=
# MPI compilers of MPICH. Debian's plain mpicc may belong to another MPI library.
MPICC  ?= $(shell command -v mpicc.mpich || echo mpicc)
MPIFC  ?= $(shell command -v mpifort.mpich || echo mpifort)
MPIRUN ?= $(shell command -v mpirun.mpich || echo mpirun)
CLANG  ?= clang

VERSION  := 0.1.0
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes
STANDARD := -std=c17 -D_GNU_SOURCE
DEFINES  := -DSPARSESHIM_VERSION='"$(VERSION)"'
ALL_CFLAGS = $(STANDARD) $(WARNINGS) $(DEFINES) -I. -fPIC -fvisibility=hidden -pthread $(CFLAGS)
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

# The simulator is for tests; it is not in the preloaded library.
SIM_SRC  := $(sort $(wildcard core/sim/*.c))
CORE_SRC := $(filter-out $(SIM_SRC),$(sort $(wildcard core/*/*.c config/*.c)))
SHIM_SRC := $(sort $(filter-out shim/cli/%,$(wildcard shim/*/*.c)))
CLI_SRC  := $(sort $(wildcard shim/cli/*.c))
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/obj/%.o)
SIM_OBJ  := $(SIM_SRC:%.c=$(BUILD)/obj/%.o)
SHIM_OBJ := $(SHIM_SRC:%.c=$(BUILD)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/obj/%.o)

# Programs of tests/mpi, tests/fortran and tests/preload lie beside each other in $(BUILD)/tests/mpi,
# those of tests/unit in $(BUILD)/tests/unit, whatever folder their source is in: names are unique.
built = $(addprefix $(BUILD)/tests/$(1)/,$(addsuffix $(3),$(basename $(notdir $(sort $(wildcard $(2)))))))
vpath %.c $(wildcard tests/unit/*/ tests/mpi/*/)
UNIT    := $(call built,unit,tests/unit/*/*.c)
MPI_PROGS := $(call built,mpi,tests/mpi/*/*.c)
MPI_SO  := $(call built,mpi,tests/preload/*.c,.so)
FORTRAN := $(call built,mpi,tests/fortran/*.f90 tests/fortran/*.f)
APPS    := $(call built,apps,tests/apps/*.c)
GRADIENTS := $(call built,gradients,tests/gradients/*.c)
BENCH   := $(call built,bench,tests/bench/*.c)
FUZZ  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

.PHONY: all check check-unit check-mpi check-frameworks check-mpich check-fuzz campaign demo demo-topk bench-exact bench-topk bench-nonblocking install uninstall lint format asan tsan fuzz \
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
WHERE_build   = $(call where,$(SYSCONFDIR),.)
WHERE_library = $(call where,$(call sysconfdir_from,$(LIBDIR)),.)
WHERE_command = $(call where,$(call sysconfdir_from,$(BINDIR)),$(call way,$(BINDIR),$(LIBDIR)))

all: $(BUILD)/libsparseshim.so $(BUILD)/sparseshim man ## build the library and the command

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

# ---- the library and the command ----

$(BUILD)/obj/%_avx2.o: ISA := -mavx2 -mfma -mbmi -mbmi2 -mlzcnt
$(BUILD)/obj/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mbmi -mbmi2 -mlzcnt
ifneq ($(filter x86_64 amd64,$(shell uname -m)),)
ISA_FLAGS = $(ISA)
endif
$(BUILD)/obj/shim/%.o: EXTRA = $(MPI_INCLUDES:-I%=-isystem %)
$(BUILD)/obj/shim/cli/%.o: EXTRA =

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

$(BUILD)/sparseshim: $(CLI_OBJ) $(BUILD)/libsparseshim_core.a
$(BUILD)/install/sparseshim: $(CLI_OBJ) $(BUILD)/where/command.o $(BUILD)/libsparseshim_core.a
$(BUILD)/sparseshim $(BUILD)/install/sparseshim:
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -pthread $(CFLAGS) $(LDFLAGS) -o $@ $^

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
	    @HELP*@) verb=$${line#@HELP}; $(SAY) help $${verb%@} | sed 's/-/\\-/g' ;; \
	    *) printf '%s\n' "$$line" | sed 's/@VERSION@/$(VERSION)/' ;; \
	    esac; done <$< >$@

# ---- tests, applications, benchmarks ----

$(BUILD)/tests/unit/test_report $(BUILD)/tests/unit/test_report_read $(BUILD)/tests/unit/test_report_observe: \
    $(BUILD)/obj/shim/cli/report_read.o $(BUILD)/obj/shim/cli/json_read.o
$(BUILD)/tests/unit/test_learn: $(BUILD)/obj/shim/cli/learn_rules.o
$(BUILD)/tests/unit/%: %.c $(BUILD)/libsparseshim_core.a
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) $(DEPFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) $(filter %.a,$^) -lcmocka -lm

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
	$(Q)$(CLANG) $(STANDARD) -g -O1 -I. -mbmi2 $(FUZZ_FLAGS) -o $@ $< core/wire/wire.c core/wire/values.c core/wire/rice.c core/base/types.c

tests: all $(UNIT) $(MPI_PROGS) $(GRADIENTS) $(MPI_SO) $(FORTRAN) $(BUILD)/tests/mpi/oracle_fastmath apps
apps: $(APPS)
deps:
	@scripts/install-deps

check: ## every test; installs what is missing first
	@scripts/install-deps build tests demo
	@begin=$$(date +%s); $(MAKE) --no-print-directory tests && echo "build: $$(($$(date +%s) - begin)) s"
	@$(MAKE) --no-print-directory check-unit
	@$(MAKE) --no-print-directory check-fuzz
	@$(MAKE) --no-print-directory check-mpi
	@echo "check: all passed"

check-unit: $(UNIT) ## unit tests and the simulator
	CMOCKA_MESSAGE_OUTPUT=TAP prove -j$(shell nproc) --timer --exec '' $(UNIT)

# MPI_JOBS=2: two files at a time, the trainings first, which take longest.
MPI_JOBS ?= 1
check-mpi: tests ## MPI programs, interposition, command line
	BUILD=$(BUILD) prove -j$(MPI_JOBS) --timer --failures --comments $(shell ls -r tests/t/*.t)

check-frameworks: tests ## trainings in PyTorch and jax; installs both (1.3 GB, minutes)
	@scripts/install-deps build tests frameworks
	@FRAMEWORKS=install BUILD=$(BUILD) prove --timer --failures --comments tests/t/train_python.t

# Open MPI is the same under either.
check-mpich: tests ## the MPI tests under the newest MPICH of PyPI (pip; MPICH_WHEEL=mpich==VERSION)
	@BUILD=$(BUILD) scripts/with-mpich-wheel $(BUILD)/mpich-venv \
	    prove --timer --failures --comments $(filter-out %/interpose_openmpi.t,$(sort $(wildcard tests/t/*.t)))

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

demo: ## the main job: a real training, dense and preloaded, side by side
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory all apps
	@BUILD=$(BUILD) scripts/demo

bench-exact: ## measurements of exact mode on the virtual cluster (root)
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all $(BENCH)
	@BUILD=$(BUILD) scripts/bench-exact

bench-nonblocking: ## measurements of nonblocking calls and the sparse allgather on the virtual cluster (root)
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all apps $(BENCH)
	@BUILD=$(BUILD) scripts/bench-nonblocking

demo-topk: ## three trainings, dense and top-k in paired seeds, with plots; hours, can be resumed
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all apps $(MPI_SO)
	@BUILD=$(BUILD) scripts/demo-topk $(ARGS)

bench-topk: ## measurements of top-k on the virtual cluster (root)
	@scripts/install-deps build demo bench
	@$(MAKE) --no-print-directory all $(BENCH)
	@BUILD=$(BUILD) scripts/bench-topk

# ---- keeping house ----

FORMATTED := $(wildcard core/*/*.[ch] config/*.[ch] shim/*.[ch] shim/*/*.[ch] tests/*/*.[ch] tests/*/*/*.[ch])
SCRIPTS := $(shell grep -lE '^\#!.*(ba)?sh' scripts/* tests/t/* .ci/run 2>/dev/null)

lint: all ## clang-format, folder rules, clang-tidy, cppcheck, shellcheck
	@scripts/install-deps build lint
	BUILD=$(BUILD) scripts/layers
	clang-format --dry-run -Werror $(FORMATTED)
	clang-tidy --quiet --warnings-as-errors='*' $(filter-out %_avx2.c %_avx512.c,$(CORE_SRC) $(SIM_SRC) $(CLI_SRC) $(SHIM_SRC)) -- \
	    $(STANDARD) $(DEFINES) -I. $(MPI_INCLUDES:-I%=-isystem %)
	cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr --suppress=missingInclude \
	    --suppress=ctunullpointer:core/compute/select_* --suppress=invalidPointerCast:core/compute/select_* --suppress=uninitvar:core/compute/select_* \
	    -DSPARSESHIM_VERSION='""' -D__x86_64__ -I. core config shim
	shellcheck -x $(SCRIPTS)

format: ## rewrite the sources in the house's format
	clang-format -i $(FORMATTED)

install: $(BUILD)/install/libsparseshim.so $(BUILD)/install/sparseshim man ## into $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR) $(DESTDIR)$(DOCDIR) $(DESTDIR)$(SYSCONFDIR)/sparseshim.d
	install -m 755 $(BUILD)/install/libsparseshim.so $(DESTDIR)$(LIBDIR)/libsparseshim.so
	install -m 755 $(BUILD)/install/sparseshim $(DESTDIR)$(BINDIR)/sparseshim
	install -d $(DESTDIR)$(INCLUDEDIR)
	install -m 644 shim/sparseshim.h $(DESTDIR)$(INCLUDEDIR)
	install -m 644 README.md LICENSE scripts/results.md $(DESTDIR)$(DOCDIR)
	install -d $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man7
	install -m 644 $(BUILD)/man/sparseshim.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 $(BUILD)/man/sparseshim.7 $(DESTDIR)$(MANDIR)/man7
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi # so that the bare name can be preloaded

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(LIBDIR)/libsparseshim.so $(DESTDIR)$(BINDIR)/sparseshim
	rm -f $(DESTDIR)$(INCLUDEDIR)/sparseshim.h
	rm -f $(addprefix $(DESTDIR)$(DOCDIR)/,README.md LICENSE results.md)
	rm -f $(DESTDIR)$(MANDIR)/man1/sparseshim.1 $(DESTDIR)$(MANDIR)/man7/sparseshim.7
	-rmdir $(DESTDIR)$(DOCDIR) 2>/dev/null

clean: ## remove build/
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -path '*-venv' -prune -o -type f -name '*.d' -print 2>/dev/null)
