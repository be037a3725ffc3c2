# sparseshim: build, test, install. `make help` lists the targets.

PREFIX     ?= /usr/local
DESTDIR    ?=
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec
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
# MPI compilers of MPICH, for tests and bench_allreduce: the library and the command need none.
# Debian's plain mpicc may belong to another MPI library.
MPICC  ?= $(shell command -v mpicc.mpich || echo mpicc)
MPIFC  ?= $(shell command -v mpifort.mpich || echo mpifort)
MPIRUN ?= $(shell command -v mpirun.mpich || echo mpirun)
CLANG  ?= clang

# What the command alone links: archives, so that it starts on nodes that have neither library. A site
# without archives links dynamically: make CLI_LIBS=-lelf.
CLI_LIBS ?= -Wl,-Bstatic -lelf -lz $(LIBZSTD) -Wl,-Bdynamic
# libelf since 0.189, for compressed sections.
LIBZSTD := $(filter /%,$(shell $(CC) -print-file-name=libzstd.a))

VERSION  := 0.1.0
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes
# Without fused operations: every compiler and processor gives the same bits.
STANDARD := -std=c17 -D_GNU_SOURCE -ffp-contract=off
DEFINES  := -DSPARSESHIM_VERSION='"$(VERSION)"'
# The same bytes from any directory.
ANYWHERE  = '-ffile-prefix-map=$(CURDIR)=.'
ALL_CFLAGS = $(STANDARD) $(WARNINGS) $(DEFINES) $(ANYWHERE) -I. -fPIC -fvisibility=hidden -pthread $(CFLAGS)
CXXFLAGS ?= -O2 -g
DEPFLAGS = -MMD -MP

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
CLI_SRC  := $(sort $(wildcard shim/cli/*.c))
# Verbs with a program of their own, which `sparseshim VERB` executes: sources in shim/VERB, or the
# script shim/cli/VERB.py. It imports what lies beside it: shim/cli/VERB_*.py.
BINARY_VERBS := simulate
PYTHON_VERBS := $(foreach script,$(sort $(wildcard shim/cli/*.py)),$(if $(findstring _,$(script)),,$(script:shim/cli/%.py=%)))
PYTHON_MODULES := $(foreach verb,$(PYTHON_VERBS),$(patsubst shim/cli/%,%,$(wildcard shim/cli/$(verb)_*.py)))
VERB_SRC := $(sort $(wildcard $(BINARY_VERBS:%=shim/%/*.c)))
SHIM_SRC := $(filter-out $(CLI_SRC) $(VERB_SRC),$(sort $(wildcard shim/*/*.c)))
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/obj/%.o)
SIM_OBJ  := $(SIM_SRC:%.c=$(BUILD)/obj/%.o)
SHIM_OBJ := $(SHIM_SRC:%.c=$(BUILD)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/obj/%.o)
VERB_OBJ := $(VERB_SRC:%.c=$(BUILD)/obj/%.o)
# What redirects torch.distributed; `sparseshim run` puts this folder into PYTHONPATH.
TORCH_FILES := $(patsubst shim/torch/%,%,$(sort $(wildcard shim/torch/*.py shim/torch/*/*.py)))
PROGRAMS := $(TORCH_FILES:%=$(BUILD)/libexec/python/%) $(addprefix $(BUILD)/libexec/,$(addprefix sparseshim-,$(BINARY_VERBS) $(PYTHON_VERBS)) $(PYTHON_MODULES))

# all is the first target, wherever included files define others.
.DEFAULT_GOAL := all
include gpu/gpu.mk
include tests/tests.mk

.PHONY: all tests apps deps check quick check-more asan tsan gpu-check gpu-bench bench demo trainings \
        lint format man install uninstall deb wheel clean help
.DELETE_ON_ERROR:

# What config/where.c is compiled with. Build directory: SYSCONFDIR as it is when that is compiled.
# Installed library and command: the way to it from LIBDIR and BINDIR, so that any PREFIX gives the
# same bytes and the tree may be moved; but a SYSCONFDIR that was given to make counts as it is.
way = $(shell realpath -m --relative-to='$(1)' '$(2)')
given = $(filter-out file default undefined,$(origin SYSCONFDIR))
sysconfdir_from = $(if $(given),$(if $(filter /%,$(SYSCONFDIR)),$(SYSCONFDIR),$(error \
                  SYSCONFDIR=$(SYSCONFDIR) does not begin with /)),$(call way,$(1),$(SYSCONFDIR)))
where = -DSPARSESHIM_SYSCONFDIR='"$(1)"' -DSPARSESHIM_LIBDIR='"$(2)"' -DSPARSESHIM_LIBEXECDIR='"$(3)"'
WHERE_build   = $(call where,$(SYSCONFDIR),.,libexec) -DSPARSESHIM_PROFILES='"$(call way,$(BUILD),config/profiles)"'
WHERE_library = $(call where,$(call sysconfdir_from,$(LIBDIR)),.,.)
WHERE_command = $(call where,$(call sysconfdir_from,$(BINDIR)),$(call way,$(BINDIR),$(LIBDIR)),$(call way,$(BINDIR),$(LIBEXECDIR)/sparseshim))

all: $(BUILD)/libsparseshim.so $(BUILD)/sparseshim $(PROGRAMS) man $(or $(GPU_LIBRARY:%=$(BUILD)/%),no-nvcc) ## build the library and the command

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(filter %Makefile %.mk,$(MAKEFILE_LIST)) | expand -t 17
	@printf '%s\n' 'PART of check-more:' '  $(MORE_PARTS)' 'PART of bench: $(BENCH_PARTS)'

# ---- the library and the command ----

$(BUILD)/obj/%_avx2.o: ISA := -mavx2 -mfma -mbmi -mbmi2 -mlzcnt
$(BUILD)/obj/%_avx512.o: ISA := -mavx512f -mfma -mavx512bw -mavx512vl -mavx512dq -mbmi -mbmi2 -mlzcnt
# The processor that the compiler compiles for, which may be a cross compiler.
MACHINE := $(shell $(CC) -dumpmachine)
ISA_FLAGS = $(if $(filter x86_64-%,$(MACHINE)),$(ISA))
SERVED = $(if $(filter x86_64-% aarch64-%,$(MACHINE)),,$(error \
         sparseshim serves x86-64 and little-endian aarch64; $(CC) compiles for $(or $(MACHINE),an unknown processor)))

# Compilers vectorise these loops; their default for -O2 leaves some of them scalar.
$(BUILD)/obj/core/compute/quantize_%.o: EXTRA = -O3 -fno-trapping-math
$(addprefix $(BUILD)/obj/core/compute/,quantize.o vector.o): EXTRA = -O3

# What is seen of them is said by gpu/exports.map.
$(BUILD)/obj/gpu/%.o: EXTRA = -fvisibility=default

$(BUILD)/obj/config/where.o: EXTRA = $(WHERE_build)

COMPILE = $(SERVED)$(CC) $(ALL_CFLAGS) $(ISA_FLAGS) $(EXTRA) $(CPPFLAGS) $(DEPFLAGS) -c -o $@ $<
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

# ---- programs of verbs ----

define BINARY_VERB
$(BUILD)/libexec/sparseshim-$(1): $(filter $(BUILD)/obj/shim/$(1)/%,$(VERB_OBJ)) $(BUILD)/libsparseshim_core.a
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$(Q)$$(CC) -pthread $$(CFLAGS) $$(LDFLAGS) -o $$@ $$(filter %.o %.a,$$^) -lm
endef
$(foreach verb,$(BINARY_VERBS),$(eval $(call BINARY_VERB,$(verb))))
# @COMMAND@ is the way from the script's folder to the command.
$(PYTHON_VERBS:%=$(BUILD)/libexec/sparseshim-%): $(BUILD)/libexec/sparseshim-%: shim/cli/%.py Makefile
	@mkdir -p $(@D)
	$(Q)sed 's|@COMMAND@|../sparseshim|' $< >$@ && chmod +x $@
$(PYTHON_VERBS:%=$(BUILD)/install/sparseshim-%): $(BUILD)/install/sparseshim-%: shim/cli/%.py FORCE
	@mkdir -p $(@D)
	$(Q)sed 's|@COMMAND@|$(call way,$(LIBEXECDIR)/sparseshim,$(BINDIR))/sparseshim|' $< >$@
$(PYTHON_MODULES:%=$(BUILD)/libexec/%): $(BUILD)/libexec/%: shim/cli/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(TORCH_FILES:%=$(BUILD)/libexec/python/%): $(BUILD)/libexec/python/%: shim/torch/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# Tried out where they have changed since.
$(CLI_OBJ): | $(BUILD)/cli-libs
$(BUILD)/cli-libs: FORCE
	@mkdir -p $(@D); printf '%s\n' '$(CLI_LIBS)' | cmp -s - $@ || \
	    if printf '%s\n' '#include <libelf.h>' \
	        'int main(void) { return elf_begin(0, ELF_C_READ, 0) == 0; }' | \
	        $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -x c -o $@.try - -x none $(CLI_LIBS); then \
	        rm -f $@.try; printf '%s\n' '$(CLI_LIBS)' >$@; \
	    else \
	        echo "The command needs libelf: its header, and libelf.a and libz.a." \
	            "Debian has them in libelf-dev and zlib1g-dev (scripts/install-deps build)." \
	            "Without the archives: make CLI_LIBS=-lelf" >&2; exit 1; \
	    fi

# ---- manual pages: the option table and the verbs' help come from the command ----

MANUAL := sparseshim.1 sparseshim.conf.5 sparseshim.7
man: $(MANUAL:%=$(BUILD)/man/%) ## the manual pages
SAY = env -i $(BUILD)/sparseshim
$(BUILD)/man/%: config/%.in $(BUILD)/sparseshim $(PROGRAMS)
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)sed '/^\.\\"/d; s/@VERSION@/$(VERSION)/' $< | while IFS= read -r line; do case $$line in \
	    @OPTIONS@) $(SAY) info -r ;; \
	    @HELP*@) verb=$${line#@HELP}; text=$$($(SAY) help $${verb%@}) || exit 1; printf '%s\n' "$$text" | sed 's/-/\\-/g' ;; \
	    *) printf '%s\n' "$$line" ;; \
	    esac; done >$@

# ---- keeping house ----

FORMATTED := $(wildcard core/*/*.[ch] core/*/*.inc config/*.[ch] shim/*.[ch] shim/*/*.[ch] gpu/*.[ch] gpu/*/*.[ch] gpu/*/*.cu tests/*/*.[ch] tests/*/*/*.[ch] tests/gpu/*.cpp)
SCRIPTS := $(shell grep -d skip -lE '^\#!.*(ba)?sh' scripts/* tests/t/* tests/aarch64/* .ci/run 2>/dev/null) config/completion.bash
PYTHON  := $(shell grep -d skip -lE '^\#!.*python' scripts/*) $(wildcard tests/*/*.py shim/cli/*.py shim/torch/*.py shim/torch/*/*.py)

lint: all ## format, layers, prose, MPI headers; linters of C and scripts
	@scripts/install-deps build lint
	BUILD=$(BUILD) scripts/layers
	BUILD=$(BUILD) CC='$(CC)' scripts/abi-check
	scripts/prose
	python3 -c 'import sys, xml.dom.minidom; [xml.dom.minidom.parse(path) for path in sys.argv[1:]]' $(wildcard scripts/*.svg)
	clang-format --dry-run -Werror $(FORMATTED)
	clang-tidy --quiet --warnings-as-errors='*' $(filter-out %_avx2.c %_avx512.c,$(CORE_SRC) $(SIM_SRC) $(CLI_SRC) $(VERB_SRC) $(SHIM_SRC) $(GPU_SRC)) -- \
	    $(STANDARD) $(DEFINES) -I.
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
