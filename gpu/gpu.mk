# The library of device buffers: kernels for GPUs and the host code around them. Included by the Makefile.

GPU_SRC  := $(filter-out gpu/queue/modules.c,$(sort $(wildcard gpu/*.c gpu/*/*.c)))
GPU_CU   := $(sort $(wildcard gpu/kernels/*.cu))
GPU_OBJ  := $(GPU_SRC:%.c=$(BUILD)/obj/%.o)

# Without nvcc everything but the library of device buffers is built.
NVCC     ?= $(shell command -v nvcc || command -v /usr/local/cuda/bin/nvcc)
GPU_LIBRARY := $(if $(NVCC),libsparseshim_cuda.so)

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
$(BUILD)/gpu/%.$(1).ptx: gpu/kernels/%.cu
	@mkdir -p $$(@D)
	$$(call say,NVCC,$$< for sm_$(1))
	$$(Q)$(NVCC) $(NVCC_FLAGS) -arch=compute_$(1) -MD -MF $$@.d -MT $$@ -ptx -o $$@ $$< && $$(SAME_NAMES) $$@
# What the compiler says of registers is kept, so that gpu-registers compiles nothing.
$(BUILD)/gpu/%.$(1).cubin $(BUILD)/gpu/%.$(1).registers: $(BUILD)/gpu/%.$(1).ptx
	$$(Q)$(NVCC) -fmad=false -arch=sm_$(1) -Xptxas -v -cubin -o $(BUILD)/gpu/$$*.$(1).cubin $$< 2>$(BUILD)/gpu/$$*.$(1).registers || \
	    { cat $(BUILD)/gpu/$$*.$(1).registers >&2; rm -f $(BUILD)/gpu/$$*.$(1).registers; exit 1; }
endef
$(foreach arch,$(sort $(GPU_LISTED) $(GPU_ARCHS)),$(eval $(call GPU_ARCH,$(arch))))
.SECONDARY: $(foreach cu,$(GPU_CU:gpu/kernels/%.cu=%),$(foreach arch,$(GPU_LISTED),$(BUILD)/gpu/$(cu).$(arch).ptx $(BUILD)/gpu/$(cu).$(arch).cubin))
gpu_parts = $(foreach arch,$(1),$(BUILD)/gpu/%.$(arch).cubin) $(BUILD)/gpu/%.$(lastword $(1)).ptx
LINK_FATBIN = $(FATBINARY) -64 $(FATBINARY_SMALL) --create=$@ \
    $(foreach part,$(filter-out %/archs,$^),--image3=kind=$(if $(filter %.ptx,$(part)),ptx,elf),sm=$(lastword $(subst ., ,$(basename $(part)))),file=$(part))
# Written anew where the list has changed since.
$(BUILD)/gpu/archs $(BUILD)/install/gpu/archs: FORCE
	@mkdir -p $(@D); echo '$(FATBIN_ARCHS)' | cmp -s - $@ || echo '$(FATBIN_ARCHS)' >$@
$(BUILD)/gpu/archs: FATBIN_ARCHS = $(GPU_ARCHS)
$(BUILD)/install/gpu/archs: FATBIN_ARCHS = $(GPU_INSTALLED)
$(BUILD)/gpu/%.fatbin: $(call gpu_parts,$(GPU_ARCHS)) $(BUILD)/gpu/archs
	$(Q)$(LINK_FATBIN)
$(BUILD)/install/gpu/%.fatbin: $(call gpu_parts,$(GPU_INSTALLED)) $(BUILD)/install/gpu/archs
	@mkdir -p $(@D)
	$(Q)$(LINK_FATBIN)
MODULES_FLAGS = -fvisibility=default -DGPU_MODULE_DIR='"$(@D)"' -DGPU_CUDA_VERSION=$(CUDA_VERSION)
$(BUILD)/gpu/modules.o: $(GPU_CU:gpu/kernels/%.cu=$(BUILD)/gpu/%.fatbin)
$(BUILD)/install/gpu/modules.o: $(GPU_CU:gpu/kernels/%.cu=$(BUILD)/install/gpu/%.fatbin)
$(BUILD)/gpu/modules.o $(BUILD)/install/gpu/modules.o: gpu/queue/modules.c Makefile
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) $(DEPFLAGS) $(MODULES_FLAGS) -c -o $@ $<
$(BUILD)/libsparseshim_cuda.so: $(BUILD)/gpu/modules.o
$(BUILD)/install/libsparseshim_cuda.so: $(BUILD)/install/gpu/modules.o
$(BUILD)/libsparseshim_cuda.so $(BUILD)/install/libsparseshim_cuda.so: $(GPU_OBJ) $(BUILD)/obj/core/select/selecting.o $(BUILD)/obj/core/wire/bounds.o $(BUILD)/obj/core/wire/value_buckets.o gpu/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-z,now -Wl,-z,defs -Wl,-z,noexecstack -Wl,--as-needed -Wl,-soname,libsparseshim_cuda.so \
	    -Wl,--version-script=gpu/exports.map $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -ldl
gpu-registers: $(if $(GPU_LIBRARY),$(GPU_CU:gpu/kernels/%.cu=$(BUILD)/gpu/%.$(lastword $(GPU_ARCHS)).registers),no-nvcc) ## registers and memory of each kernel, last of GPU_ARCHS
	$(Q)[ -n "$(GPU_LIBRARY)" ] || exit 1; cat $(filter %.registers,$^) | \
	    awk '/Compiling entry/ { split($$0, q, "\047"); name = q[2] } \
	         /spill/ { spill = $$5 } \
	         /Used/ { shared = match($$0, /[0-9]+ bytes smem/) ? substr($$0, RSTART, RLENGTH) : ""; \
	                  printf "%-26s %3d registers  %3d bytes spilled  %s\n", name, $$5, spill, shared }' | sort
.PHONY: gpu-registers
no-nvcc:
	@echo "no nvcc: device buffers are not built (scripts/install-deps gpu)"
.PHONY: no-nvcc
