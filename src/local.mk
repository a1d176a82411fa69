# The library: src/, its OpenCL kernels in cl/. Included by the Makefile.am at the top.

# Everything, with internal functions visible: the command, the tests and the benchmarks link this.
noinst_LTLIBRARIES += libclattn_core.la
libclattn_core_la_LIBADD = $(CLBLAST_LIBS) $(OPENCL_LIBS) -lm -lpthread
libclattn_core_la_SOURCES = \
	src/additive.c \
	src/additive.h \
	src/additive_problem.c \
	src/additive_problem.h \
	src/api.c \
	src/api_layers.c \
	src/attention_arguments.c \
	src/attention_arguments.h \
	src/call.c \
	src/checked_math.h \
	src/context.c \
	src/context.h \
	src/describe.c \
	src/describe.h \
	src/device.c \
	src/device.h \
	src/device_quirks.c \
	src/embedded_cl.h \
	src/environment.c \
	src/environment.h \
	src/error.c \
	src/error.h \
	src/gemm.c \
	src/gemm.h \
	src/host_call.c \
	src/host_call.h \
	src/host_layers.c \
	src/host_layers.h \
	src/host_values.c \
	src/kernel_source.c \
	src/kernel_source.h \
	src/ladder.c \
	src/ladder.h \
	src/ladder_table.c \
	src/launch.c \
	src/launch.h \
	src/layer.c \
	src/layer.h \
	src/layer_enqueue.c \
	src/layer_enqueue.h \
	src/merge.c \
	src/merge.h \
	src/mha.c \
	src/mha.h \
	src/mha_enqueue.c \
	src/mha_problem.c \
	src/mha_problem.h \
	src/params.c \
	src/params.h \
	src/planner.c \
	src/planner.h \
	src/problem.c \
	src/problem.h \
	src/program.c \
	src/program.h \
	src/program_cache.c \
	src/program_cache.h \
	src/program_file.c \
	src/program_file.h \
	src/program_folder.c \
	src/program_folder.h \
	src/project.c \
	src/project.h \
	src/reference/additive.c \
	src/reference/additive.h \
	src/reference/alibi.c \
	src/reference/alibi.h \
	src/reference/half.c \
	src/reference/half.h \
	src/reference/mha.c \
	src/reference/mha.h \
	src/reference/philox.c \
	src/reference/philox.h \
	src/reference/reference.c \
	src/reference/reference.h \
	src/reference/visibility.c \
	src/reference/visibility.h \
	src/row_blocks.c \
	src/row_blocks.h \
	src/sha256.c \
	src/sha256.h \
	src/strategies.c \
	src/strategy.h \
	src/strategy/fused_mma.c \
	src/strategy/fused_amx.c \
	src/strategy/fused_simd.c \
	src/strategy/fused_simd.h \
	src/strategy/fused_simd_run.c \
	src/strategy/fused_simt.c \
	src/strategy/plain.c \
	src/strategy/split.c \
	src/strategy/staged.c \
	src/strategy/staged.h \
	src/strategy/staged_run.c \
	src/strategy/staged_tiles.c \
	src/strategy/staged_tiles.h \
	src/strategy/strategies.h \
	src/text.c \
	src/text.h \
	src/tuning.c \
	src/tuning.h \
	src/tuning_table.c \
	src/types.c \
	src/x86.c \
	src/x86.h
nodist_libclattn_core_la_SOURCES = src/embedded_cl.c

# The kernel files, and what they share with the host.
KERNEL_FILES = \
	cl/additive.cl \
	cl/additive.h \
	cl/arguments.clh \
	cl/average_heads.cl \
	cl/exp.clh \
	cl/fetch.clh \
	cl/fused_mma.cl \
	cl/fused_simd.cl \
	cl/fused_simt.cl \
	cl/gemm_tile.clh \
	cl/hidden.clh \
	cl/lane_mask.clh \
	cl/lanes.clh \
	cl/lesson_softmax.cl \
	cl/mask.clh \
	cl/matrix.clh \
	cl/matrix_amd.clh \
	cl/matrix_intel.clh \
	cl/matrix_nvidia.clh \
	cl/matrix_nvidia_70.clh \
	cl/matrix_nvidia_tf32.clh \
	cl/matrix_portable.clh \
	cl/matrix_ptx.clh \
	cl/matrix_units.h \
	cl/merge.cl \
	cl/merge_params.h \
	cl/mix.cl \
	cl/mma_softmax.clh \
	cl/mma_stage.clh \
	cl/mma_tile.clh \
	cl/params.h \
	cl/philox.clh \
	cl/plain.cl \
	cl/probe_amx.cl \
	cl/probe_avx512_bf16.cl \
	cl/probe_mma.cl \
	cl/project.cl \
	cl/project.h \
	cl/project_tiles.cl \
	cl/repair.cl \
	cl/row_block.clh \
	cl/scale_mask.cl \
	cl/score.cl \
	cl/simd_block.clh \
	cl/simd_dot.clh \
	cl/simd_fma.clh \
	cl/simd_pairs.clh \
	cl/simd_registers.clh \
	cl/simd_rows.clh \
	cl/simd_tiles.clh \
	cl/simt_tile.clh \
	cl/softmax.cl \
	cl/split.cl \
	cl/split_products.clh \
	cl/staged.h \
	cl/terms.clh \
	cl/types.clh \
	cl/vector.clh \
	cl/x86_amx.clh \
	cl/x86_bf16.clh
EXTRA_DIST += $(KERNEL_FILES)

src/embedded_cl.c: $(KERNEL_FILES) scripts/embed_files Makefile
	$(AM_V_GEN)$(MKDIR_P) src && cd $(srcdir) && \
	scripts/embed_files $(KERNEL_FILES) >$(abs_builddir)/$@.new && mv $(abs_builddir)/$@.new $(abs_builddir)/$@
CLEANFILES += src/embedded_cl.c

# What is installed: the same code, only clattn_* to be seen.
lib_LTLIBRARIES = libclattn.la
libclattn_la_SOURCES =
libclattn_la_LIBADD = libclattn_core.la
# -version-info CURRENT:REVISION:AGE. For a release, start from the last release's numbers and take the
# first line that fits:
#   a function or field was removed or changed its meaning   CURRENT+1 : 0 : 0
#   only new functions, or new fields at a struct's end      CURRENT+1 : 0 : AGE+1
#   neither, but the code changed                            CURRENT : REVISION+1 : AGE
# It is not the package's version and does not follow it.
libclattn_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -version-info 0:0:0
