# Installation: what goes where, as it is made from the build and from config/; packages.

WHATIS := sparse gradient allreduce for unmodified MPI programs, by preload
OBJCOPY ?= objcopy
READELF ?= readelf
DEBUGDIR = $(LIBDIR)/sparseshim/debug
PROFILES := $(sort $(wildcard config/profiles/*.conf))
LINKED := scripts/results.md scripts/loss.svg scripts/CHANGELOG.md # by README.md
DOCS := README.md LICENSE
EXAMPLES := $(sort $(wildcard scripts/examples/*))
INSTALLED_LIBS := libsparseshim.so $(GPU_LIBRARY)
STRIPPED := $(BUILD)/install/stripped

# ---- stripped, with the debug information apart ----

# Debuggers find it by the build ID below DEBUGDIR.
debug_file = $$($(READELF) -n $(1) 2>/dev/null | sed -n 's|.*Build ID: \(..\)\(.*\)|.build-id/\1/\2.debug|p')
strip_apart = file=$(call debug_file,$<) && debug=$(@D)/debug/$${file\#\#*/} && \
    $(OBJCOPY) --only-keep-debug $< $$debug && \
    $(OBJCOPY) --strip-unneeded --add-gnu-debuglink=$$debug $< $@
$(STRIPPED)/%: $(BUILD)/install/%
	@mkdir -p $(@D)/debug
	$(call say,STRIP,$@)
	$(Q)$(strip_apart)

$(BINARY_VERBS:%=$(STRIPPED)/sparseshim-%): $(STRIPPED)/%: $(BUILD)/libexec/%
	@mkdir -p $(@D)/debug
	$(call say,STRIP,$@)
	$(Q)$(strip_apart)

# What sparseshim bench runs; it is left out where no MPI compiler is found.
$(STRIPPED)/bench_allreduce: $(BUILD)/tests/bench/bench_allreduce
	@mkdir -p $(@D)
	$(call say,STRIP,$@)
	$(Q)$(OBJCOPY) --strip-all --remove-section .note.gnu.build-id $< $@

# ---- files that know directories ----

# From PREFIX on, where a directory lies in it: a tree that is moved finds its own.
inside = $(patsubst $(PREFIX)/%,$(1)/%,$(2))
PC_PREFIX = $(if $(filter $(PREFIX)/%,$(PKGCONFIGDIR)),$${pcfiledir}/$(call way,$(PKGCONFIGDIR),$(PREFIX)),$(PREFIX))
MODULE_BAD := a blank, colon, comma or quote in a path: SRUN_EXPORT_ENV cannot carry it
MODULE_SET := LD_PRELOAD is set, and srun hands on that value alone; this preloads the library as well: srun sparseshim run ./app
MODULE_SED = sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@NAME@|$(1)|; s|@WHATIS@|$(WHATIS)|; \
    s|@BAD@|$(MODULE_BAD)|; s|@SET@|$(MODULE_SET)|; \
    s|@INSIDE@|$(patsubst $(PREFIX)/%,/%,$(filter $(PREFIX)/%,$(MODULEDIR)))|; \
    s|@LIB_INSIDE@|$(patsubst $(PREFIX)/%,/%,$(LIBDIR))/libsparseshim.so|; \
    s|@LIBDIR@|$(call inside,$$root,$(LIBDIR))|; s|@BINDIR@|$(call inside,$$root,$(BINDIR))|; \
    s|@MANDIR@|$(call inside,$$root,$(MANDIR))|; s|@PKGCONFIGDIR@|$(call inside,$$root,$(PKGCONFIGDIR))|'
MODULE_PART = -e '/@HELP@/{r config/modulefile.txt' -e 'd}' \
    $(if $(filter auto,$(1)),-e '/@AUTO$$/d' -e '/@END$$/d',-e '/@AUTO$$/$(comma)/@END$$/d')
$(BUILD)/install/%.tcl: config/modulefile.tcl.in config/modulefile.txt FORCE
	@mkdir -p $(@D)
	$(Q)sed $(call MODULE_PART,$*) $< | $(call MODULE_SED,$*) >$@
$(BUILD)/install/%.lua: config/modulefile.lua.in config/modulefile.txt FORCE
	@mkdir -p $(@D)
	$(Q)sed $(call MODULE_PART,$*) $< | $(call MODULE_SED,$*) | sed 's|"$$root\([^"]*\)"|root .. "\1"|' >$@
$(BUILD)/install/version: FORCE
	@mkdir -p $(@D)
	$(Q)printf '#%%Module\nset ModulesVersion "$(VERSION)"\n' >$@
$(BUILD)/install/sparseshim.pc: config/sparseshim.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PC_PREFIX)|; s|@VERSION@|$(VERSION)|; s|@WHATIS@|$(WHATIS)|' \
	    -e 's|@LIBDIR@|$(call inside,$${prefix},$(LIBDIR))|; s|@INCLUDEDIR@|$(call inside,$${prefix},$(INCLUDEDIR))|' $< >$@

# ---- install, uninstall ----

# What is installed, as SOURCE:TARGET; and whose debug information.
INSTALLED_BENCH = $(LIBEXECDIR)/sparseshim/bench_allreduce
BINARIES := $(INSTALLED_LIBS) sparseshim $(BINARY_VERBS:%=sparseshim-%)
INSTALLED = $(foreach lib,$(INSTALLED_LIBS),$(STRIPPED)/$(lib):$(LIBDIR)/$(lib)) \
    $(STRIPPED)/sparseshim:$(BINDIR)/sparseshim \
    $(foreach verb,$(BINARY_VERBS),$(STRIPPED)/sparseshim-$(verb):$(LIBEXECDIR)/sparseshim/sparseshim-$(verb)) \
    $(foreach verb,$(PYTHON_VERBS),$(BUILD)/install/sparseshim-$(verb):$(LIBEXECDIR)/sparseshim/sparseshim-$(verb)) \
    $(foreach file,$(PYTHON_MODULES),shim/cli/$(file):$(LIBEXECDIR)/sparseshim/$(file)) \
    $(foreach file,$(TORCH_FILES),shim/torch/$(file):$(LIBEXECDIR)/sparseshim/python/$(file)) \
    $(if $(shell command -v $(MPICC) 2>/dev/null),$(STRIPPED)/bench_allreduce:$(INSTALLED_BENCH)) \
    shim/sparseshim.h:$(INCLUDEDIR)/sparseshim.h \
    $(BUILD)/install/sparseshim.pc:$(PKGCONFIGDIR)/sparseshim.pc \
    $(foreach page,$(MANUAL),$(BUILD)/man/$(page):$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page)) \
    $(foreach doc,$(DOCS),$(doc):$(DOCDIR)/$(notdir $(doc))) $(foreach doc,$(LINKED),$(doc):$(DOCDIR)/$(doc)) \
    $(foreach example,$(EXAMPLES),$(example):$(DOCDIR)/examples/$(notdir $(example))) \
    config/completion.bash:$(COMPLETIONDIR)/sparseshim \
    $(BUILD)/install/version:$(MODULEDIR)/sparseshim/.version \
    $(foreach name,$(VERSION) auto,$(BUILD)/install/$(name).tcl:$(MODULEDIR)/sparseshim/$(name) \
                                   $(BUILD)/install/$(name).lua:$(MODULEDIR)/sparseshim/$(name).lua)
pair_source = $(firstword $(subst :, ,$(1)))
pair_target = $(patsubst $(call pair_source,$(1)):%,%,$(1))
TARGETS = $(foreach pair,$(INSTALLED),$(call pair_target,$(pair))) $(LIBDIR)/libsparseshim_cuda.so $(INSTALLED_BENCH)
PROFILEDIR = $(SYSCONFDIR)/sparseshim.d
OF_DEBUG = $(foreach file,$(LIBDIR)/libsparseshim.so $(LIBDIR)/libsparseshim_cuda.so $(BINDIR)/sparseshim $(BINARY_VERBS:%=$(LIBEXECDIR)/sparseshim/sparseshim-%),$(call debug_file,$(DESTDIR)$(file)))
REMOVE_DEBUG = @for file in $(OF_DEBUG); do rm -f "$(DESTDIR)$(DEBUGDIR)/$$file"; \
    [ ! -d $(DESTDIR)$(LIBDIR) ] || (cd $(DESTDIR)$(LIBDIR) && rmdir -p sparseshim/debug/$${file%/*} 2>/dev/null) || :; done

install: $(foreach pair,$(INSTALLED),$(call pair_source,$(pair))) $(if $(NVCC),,no-nvcc) ## into $(DESTDIR)$(PREFIX)
	$(REMOVE_DEBUG)
	@set -e; for pair in $(INSTALLED); do source=$${pair%%:*}; target=$(DESTDIR)$${pair#*:}; \
	    case $$source in $(STRIPPED)/* | */sparseshim-*) mode=755 ;; *) mode=644 ;; esac; \
	    echo "install -m $$mode $$source $$target"; install -D -m $$mode $$source $$target; done
	@set -e; for binary in $(BINARIES); do file=$(call debug_file,$(STRIPPED)/$$binary); \
	    install -D -m 644 $(STRIPPED)/debug/$${file##*/} $(DESTDIR)$(DEBUGDIR)/$$file; done
	@install -d $(DESTDIR)$(PROFILEDIR)
	@set -e; for source in $(PROFILES); do target=$(DESTDIR)$(PROFILEDIR)/$${source##*/}; \
	    if [ -e $$target ] && ! cmp -s $$source $$target; then \
	        echo "$$target was changed and stays; what is new is in $$target.new"; target=$$target.new; \
	    else rm -f $$target.new; fi; install -m 644 $$source $$target; done
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi # so that the bare name can be preloaded

# Profiles that were changed stay. Empty folders go, but not those of the system.
uninstall: ## remove what install put there
	$(REMOVE_DEBUG)
	rm -f $(addprefix $(DESTDIR),$(TARGETS))
	rm -rf $(addsuffix __pycache__,$(addprefix $(DESTDIR)$(LIBEXECDIR)/sparseshim/python/,$(sort $(dir $(TORCH_FILES)))))
	@for source in $(PROFILES); do target=$(DESTDIR)$(PROFILEDIR)/$${source##*/}; rm -f $$target.new; \
	    if cmp -s $$source $$target; then rm $$target; elif [ -e $$target ]; then echo "$$target was changed and stays"; fi; done
	$(if $(filter /usr /usr/local,$(PREFIX)),,@[ ! -d $(DESTDIR)$(PREFIX) ] || { cd $(DESTDIR)$(PREFIX) && rmdir -p \
	    $(sort $(patsubst $(PREFIX)/%,%,$(filter $(PREFIX)/%,$(dir $(TARGETS)) $(PROFILEDIR)))) 2>/dev/null || :; \
	    rmdir $(DESTDIR)$(PREFIX) 2>/dev/null || :; })
	@rmdir $(addprefix $(DESTDIR),$(DOCDIR)/scripts $(DOCDIR)/examples $(DOCDIR) $(MODULEDIR)/sparseshim $(PROFILEDIR) $(LIBDIR)/sparseshim $(LIBEXECDIR)/sparseshim/python/sparseshim_torch $(LIBEXECDIR)/sparseshim/python $(LIBEXECDIR)/sparseshim) 2>/dev/null || :
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

# ---- packages ----

MAINTAINER ?= The sparseshim authors <sparseshim@localhost>
DEB_TREE = $(abspath $(BUILD))/deb
deb: ## a Debian package in $(BUILD)
	@rm -rf $(DEB_TREE)
	@umask 022; $(MAKE) --no-print-directory install DESTDIR=$(DEB_TREE) PREFIX=/usr SYSCONFDIR=/etc \
	    LIBDIR=/usr/lib/$(shell $(CC) -print-multiarch)
	@scripts/package-deb $(DEB_TREE) $(VERSION) '$(MAINTAINER)' $(BUILD)/sparseshim_$(VERSION)-1_$$(dpkg --print-architecture).deb

# PREFIX is any: an installed tree finds its files from where it lies. bench_allreduce belongs to one MPI library.
WHEEL_TREE = $(abspath $(BUILD))/wheel
wheel: ## a Python wheel in $(BUILD)
	@rm -rf $(WHEEL_TREE) $(BUILD)/sparseshim-*.whl
	@umask 022; $(MAKE) --no-print-directory install DESTDIR=$(WHEEL_TREE)/ PREFIX=/usr MPICC=none
	@scripts/package-wheel $(WHEEL_TREE)/usr $(VERSION) $(MACHINE) '$(WHATIS)' $(BUILD)
