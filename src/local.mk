# The library: src/, its OpenCL kernels in cl/. Included by the Makefile.am at the top.

# Everything, with internal functions visible: the command, the tests and the benchmarks link this.
noinst_LTLIBRARIES += libclattn_core.la
libclattn_core_la_LIBADD = $(CLBLAST_LIBS) $(OPENCL_LIBS) -lm -lpthread
libclattn_core_la_SOURCES = \
	src/api/api.c \
	src/api/api_cache.c \
	src/api/api_costs.c \
	src/api/api_backward.c \
	src/api/api_layers.c \
	src/api/describe.c \
	src/api/describe.h \
	src/api/entry.c \
	src/api/entry.h \
	src/api/plan_request.c \
	src/api/host_enqueue.h \
	src/api/host_enqueue.c \
	src/api/new_context.c \
	src/api/new_context.h \
	src/base/ascii.h \
	src/base/checked_math.h \
	src/base/clock.c \
	src/base/clock.h \
	src/base/decimal.c \
	src/base/decimal.h \
	src/base/error.c \
	src/base/error.h \
	src/base/growth.c \
	src/base/growth.h \
	src/base/half.c \
	src/base/half.h \
	src/base/nearest.h \
	src/base/process_mark.c \
	src/base/process_mark.h \
	src/base/regular_file.c \
	src/base/regular_file.h \
	src/base/sha256.c \
	src/base/sha256.h \
	src/base/stored_types.c \
	src/base/stored_types.h \
	src/base/text.c \
	src/base/text.h \
	src/base/types.c \
	src/base/uncancelled.h \
	src/base/utf8.c \
	src/base/utf8.h \
	src/device/device.c \
	src/device/device.h \
	src/device/device_list.c \
	src/device/device_list.h \
	src/device/device_quirks.c \
	src/device/environment.c \
	src/device/environment.h \
	src/device/x86.c \
	src/device/x86.h \
	src/layers/additive_backward_layer.c \
	src/layers/additive_backward_layer.h \
	src/layers/additive_backward_steps.c \
	src/layers/additive_backward_steps.h \
	src/layers/additive_layer.c \
	src/layers/additive_layer.h \
	src/layers/additive_scores.c \
	src/layers/additive_scores.h \
	src/layers/layer.c \
	src/layers/layer.h \
	src/layers/matrices.c \
	src/layers/matrices.h \
	src/layers/merge.c \
	src/layers/merge.h \
	src/layers/mha_backward_layer.c \
	src/layers/mha_backward_layer.h \
	src/layers/mha_backward_steps.c \
	src/layers/mha_backward_steps.h \
	src/layers/mha_layer.c \
	src/layers/mha_layer.h \
	src/layers/mha_packing.c \
	src/layers/projector.c \
	src/layers/projector.h \
	src/operation/additive.c \
	src/operation/additive.h \
	src/operation/additive_backward.c \
	src/operation/additive_backward.h \
	src/operation/additive_rows.h \
	src/operation/any_call.c \
	src/operation/any_call.h \
	src/operation/any_problem.c \
	src/operation/any_problem.h \
	src/operation/append.c \
	src/operation/append.h \
	src/operation/append_problem.c \
	src/operation/append_values.c \
	src/operation/append_values.h \
	src/operation/backward.c \
	src/operation/backward.h \
	src/operation/call.c \
	src/operation/call.h \
	src/operation/field_rules.c \
	src/operation/field_rules.h \
	src/operation/fill_params.c \
	src/operation/fill_params.h \
	src/operation/forward.c \
	src/operation/forward.h \
	src/operation/forward_rows.h \
	src/operation/gradient_rules.c \
	src/operation/gradient_rules.h \
	src/operation/gradient_tensors.h \
	src/operation/merging.c \
	src/operation/merging.h \
	src/operation/mha.c \
	src/operation/mha.h \
	src/operation/mha_backward.c \
	src/operation/mha_backward.h \
	src/operation/mha_rows.h \
	src/operation/operand_values.c \
	src/operation/operands.c \
	src/operation/operands.h \
	src/operation/overlap.c \
	src/operation/overlap.h \
	src/operation/pools.c \
	src/operation/pools.h \
	src/operation/operation.h \
	src/operation/problem.c \
	src/operation/problem.h \
	src/operation/rotary.c \
	src/operation/rotary.h \
	src/operation/norms.c \
	src/operation/norms.h \
	src/operation/user_code.c \
	src/operation/user_code.h \
	src/operation/user_code_text.c \
	src/operation/turning.c \
	src/operation/turning.h \
	src/plan/amx.c \
	src/plan/amx.h \
	src/plan/ask.c \
	src/plan/ask.h \
	src/plan/attention_arguments.c \
	src/plan/attention_arguments.h \
	src/plan/backward_arguments.c \
	src/plan/backward_arguments.h \
	src/plan/code_programs.c \
	src/plan/code_programs.h \
	src/plan/enqueue.c \
	src/plan/enqueue.h \
	src/plan/estimates.c \
	src/plan/estimates.h \
	src/plan/host_regions.c \
	src/plan/host_regions.h \
	src/plan/host_session.c \
	src/plan/host_session.h \
	src/plan/kept_plans.c \
	src/plan/kept_plans.h \
	src/plan/kv_split.c \
	src/plan/kv_split.h \
	src/plan/ladder.c \
	src/plan/ladder.h \
	src/plan/ladder_table.c \
	src/plan/matrix_unit.c \
	src/plan/matrix_unit.h \
	src/plan/planner.c \
	src/plan/planner.h \
	src/plan/rates.c \
	src/plan/rates.h \
	src/plan/register_file.c \
	src/plan/register_file.h \
	src/plan/row_blocks.c \
	src/plan/row_blocks.h \
	src/plan/rehearse_plan.c \
	src/plan/rehearse_plan.h \
	src/plan/row_runs.c \
	src/plan/row_runs.h \
	src/plan/self_check.c \
	src/plan/self_check.h \
	src/plan/self_check_answers.c \
	src/plan/self_check_call.c \
	src/plan/self_check_equal.c \
	src/plan/self_check_gradients.c \
	src/plan/self_check_hidden.c \
	src/plan/self_check_places.c \
	src/plan/self_check_values.c \
	src/plan/simt_tile.c \
	src/plan/simt_tile.h \
	src/plan/steps.c \
	src/plan/steps.h \
	src/plan/strategy.h \
	src/plan/tile_choice.c \
	src/plan/tile_choice.h \
	src/plan/tuning.c \
	src/plan/tuning.h \
	src/plan/tuning_table.c \
	src/plan/wisdom.c \
	src/plan/wisdom.h \
	src/plan/wisdom_store.c \
	src/plan/wisdom_store.h \
	src/operation/rows.h \
	src/program/context.c \
	src/program/context.h \
	src/program/embedded_cl.h \
	src/program/folder_file.c \
	src/program/folder_file.h \
	src/program/gemm.h \
	src/program/gemm_types.c \
	src/program/host_sharing.c \
	src/program/host_sharing.h \
	src/program/include_once.c \
	src/program/include_once.h \
	src/program/kernel_source.c \
	src/program/kernel_source.h \
	src/program/kernel_times.c \
	src/program/kernel_times.h \
	src/program/launch.c \
	src/program/launch.h \
	src/program/program.c \
	src/program/program.h \
	src/program/program_binary.c \
	src/program/program_binary.h \
	src/program/program_cache.c \
	src/program/program_cache.h \
	src/program/program_costs.c \
	src/program/program_costs.h \
	src/program/program_file.c \
	src/program/program_file.h \
	src/program/program_folder.c \
	src/program/program_folder.h \
	src/program/program_parts.h \
	src/program/program_uses.c \
	src/program/program_uses.h \
	src/program/rehearsal.c \
	src/program/rehearsal.h \
	src/program/verdict_file.c \
	src/program/verdict_file.h \
	src/program/verdicts.c \
	src/program/verdicts.h \
	src/reference/alibi.c \
	src/reference/alibi.h \
	src/reference/gradient_detail.c \
	src/reference/gradient_detail.h \
	src/reference/gradient_sums.c \
	src/reference/gradient_sums.h \
	src/reference/numbers.c \
	src/reference/numbers.h \
	src/reference/philox.c \
	src/reference/philox.h \
	src/reference/reference.c \
	src/reference/reference.h \
	src/reference/reference_additive.c \
	src/reference/reference_additive.h \
	src/reference/reference_additive_backward.c \
	src/reference/reference_additive_backward.h \
	src/reference/reference_append.c \
	src/reference/reference_backward.c \
	src/reference/reference_backward.h \
	src/reference/reference_mha.c \
	src/reference/reference_mha_backward.c \
	src/reference/reference_mha_backward.h \
	src/reference/reference_rotary.c \
	src/reference/reference_rotary.h \
	src/reference/rotary_table.c \
	src/reference/rotary_table.h \
	src/reference/sum_bound.h \
	src/reference/stored_rows.c \
	src/reference/stored_rows.h \
	src/reference/user_pairs.c \
	src/reference/user_pairs.h \
	src/reference/visibility.c \
	src/reference/visibility.h \
	src/strategy/append_rows.c \
	src/strategy/backward_mma.c \
	src/strategy/backward_owners.c \
	src/strategy/backward_owners.h \
	src/strategy/backward_plain.c \
	src/strategy/backward_plain.h \
	src/strategy/backward_amx.c \
	src/strategy/backward_simd.c \
	src/strategy/backward_simd.h \
	src/strategy/backward_simd_run.c \
	src/strategy/backward_simt.c \
	src/strategy/fused_amx.c \
	src/strategy/fused_mma.c \
	src/strategy/fused_simd.c \
	src/strategy/fused_simd.h \
	src/strategy/fused_simd_run.c \
	src/strategy/fused_simd_tile.c \
	src/strategy/fused_simd_tile.h \
	src/strategy/fused_simt.c \
	src/strategy/plain.c \
	src/strategy/rotary_rows.c \
	src/strategy/split.c \
	src/strategy/split_simt.c \
	src/strategy/staged.c \
	src/strategy/staged.h \
	src/strategy/staged_run.c \
	src/strategy/staged_tiles.c \
	src/strategy/staged_tiles.h \
	src/strategy/strategies.c \
	src/strategy/strategies.h
# In place of folder_file.c and program_folder.c on Windows, which CMakeLists.txt builds for.
EXTRA_DIST += src/program/folder_none.c
if CLBLAST
libclattn_core_la_SOURCES += src/program/gemm.c
else
libclattn_core_la_SOURCES += src/program/gemm_none.c
endif
nodist_libclattn_core_la_SOURCES = src/program/embedded_cl.c

src/program/embedded_cl.c: $(KERNEL_FILES) scripts/embed_files Makefile
	$(AM_V_GEN)$(MKDIR_P) src/program && cd $(srcdir) && \
	scripts/embed_files clattn_embedded_files $(KERNEL_FILES) >"$(abs_builddir)/$@.new" && \
	mv "$(abs_builddir)/$@.new" "$(abs_builddir)/$@"
CLEANFILES += src/program/embedded_cl.c

# What is installed: the same code, only clattn_* to be seen.
lib_LTLIBRARIES = libclattn.la
libclattn_la_SOURCES =
libclattn_la_LIBADD = libclattn_core.la
# -version-info CURRENT:REVISION:AGE. For a release, start from the last one's numbers; the first line that fits:
#   a function or field was removed or changed its meaning   CURRENT+1 : 0 : 0
#   only new functions, or new fields at a struct's end      CURRENT+1 : 0 : AGE+1
#   neither, but the code changed                            CURRENT : REVISION+1 : AGE
# It is not the package's version and does not follow it. The version in libclattn.map has the number CURRENT - AGE.
libclattn_la_LDFLAGS = $(AM_LDFLAGS) $(VERSION_SCRIPT_LDFLAGS) -no-undefined -version-info 0:0:0
EXTRA_libclattn_la_DEPENDENCIES = src/libclattn.map
EXTRA_DIST += src/libclattn.map
