# The command clattn. Included by the Makefile.am at the top.

# All of it but main, for the tests too.
libclattn_tool_la_LIBADD = $(CAIRO_LIBS) $(CJSON_LIBS)
AM_CPPFLAGS += -DCLATTN_DATA_DIR='"$(pkgdatadir)"' -DCLATTN_LIBEXEC_DIR='"$(pkglibexecdir)"'
libclattn_tool_la_SOURCES = \
	tools/attention.c \
	tools/attention.h \
	tools/attention_cache.c \
	tools/attention_cache.h \
	tools/attention_extras.c \
	tools/attention_extras.h \
	tools/attention_lists.c \
	tools/attention_scales.c \
	tools/attention_scales.h \
	tools/bench_backward.c \
	tools/bench_backward.h \
	tools/bench_call.c \
	tools/bench_call.h \
	tools/bench_codes.c \
	tools/bench_codes.h \
	tools/bench_data.c \
	tools/bench_data.h \
	tools/bench_text.c \
	tools/bench_kernels.c \
	tools/bench_kernels.h \
	tools/bench_key_sums.c \
	tools/bench_key_sums.h \
	tools/bench_pairs.c \
	tools/bench_pairs.h \
	tools/bench_read.c \
	tools/bench_read.h \
	tools/bench_shapes.c \
	tools/bench_shapes.h \
	tools/bench_table.c \
	tools/bench_table.h \
	tools/call_times.c \
	tools/call_times.h \
	tools/check.c \
	tools/check.h \
	tools/check_cache.c \
	tools/check_cache.h \
	tools/check_gradients.c \
	tools/check_gradients.h \
	tools/check_keys.c \
	tools/check_keys.h \
	tools/check_part.c \
	tools/check_part.h \
	tools/check_row.c \
	tools/check_row.h \
	tools/child.h \
	tools/child_posix.c \
	tools/closest.c \
	tools/closest.h \
	tools/cmd_bench.c \
	tools/cmd_compile.c \
	tools/cmd_completions.c \
	tools/cmd_devices.c \
	tools/cmd_explain.c \
	tools/cmd_grad.c \
	tools/cmd_lesson.c \
	tools/cmd_mha.c \
	tools/cmd_run.c \
	tools/cmd_quantise.c \
	tools/cmd_report.c \
	tools/cmd_ring.c \
	tools/cmd_selfcheck.c \
	tools/cmd_tune.c \
	tools/command_table.c \
	tools/commands.h \
	tools/document.c \
	tools/document.h \
	tools/failure.c \
	tools/failure.h \
	tools/file_kind.c \
	tools/file_kind.h \
	tools/files.c \
	tools/files.h \
	tools/gradients.c \
	tools/gradients.h \
	tools/heat.c \
	tools/heat.h \
	tools/inputs.c \
	tools/inputs.h \
	tools/json.c \
	tools/insides.h \
	tools/json.h \
	tools/layer_run.c \
	tools/layer_run.h \
	tools/layout.c \
	tools/layout.h \
	tools/lesson/additive_costs.c \
	tools/lesson/attend.c \
	tools/lesson/attend.h \
	tools/lesson/chart.c \
	tools/lesson/chart.h \
	tools/lesson/chart_draw.c \
	tools/lesson/chart_draw.h \
	tools/lesson/chart_file.c \
	tools/lesson/chart_text.c \
	tools/lesson/chart_text.h \
	tools/lesson/chart_ticks.c \
	tools/lesson/chart_ticks.h \
	tools/lesson/complexity.c \
	tools/lesson/course.c \
	tools/lesson/course.h \
	tools/lesson/device_time.c \
	tools/lesson/device_time.h \
	tools/lesson/gradient.c \
	tools/lesson/gradient.h \
	tools/lesson/gradient_sentence.c \
	tools/lesson/gradient_sentence.h \
	tools/lesson/kernels.h \
	tools/lesson/lesson.h \
	tools/lesson/lesson_list.h \
	tools/lesson/lessons.c \
	tools/lesson/mask.c \
	tools/lesson/mathml.h \
	tools/lesson/page.c \
	tools/lesson/page.h \
	tools/lesson/row.c \
	tools/lesson/sample.c \
	tools/lesson/sample.h \
	tools/lesson/saturation.c \
	tools/lesson/sentence.c \
	tools/lesson/sentence_data.c \
	tools/lesson/sentence_data.h \
	tools/lesson/sentence_head.c \
	tools/lesson/sentence_head.h \
	tools/lesson/score.c \
	tools/lesson/stability.c \
	tools/lesson/trainer.c \
	tools/lesson/trainer.h \
	tools/lesson/training.c \
	tools/lesson/variance.c \
	tools/library.c \
	tools/library.h \
	tools/multihead.c \
	tools/multihead.h \
	tools/npy.c \
	tools/npy.h \
	tools/number.c \
	tools/number.h \
	tools/option_list.h \
	tools/options.c \
	tools/options.h \
	tools/output.c \
	tools/output.h \
	tools/page_pools.c \
	tools/page_pools.h \
	tools/part.c \
	tools/part.h \
	tools/place.c \
	tools/place.h \
	tools/place_posix.c \
	tools/plot.c \
	tools/plot.h \
	tools/problem_options.c \
	tools/problem_options.h \
	tools/progress.c \
	tools/progress.h \
	tools/quantise_scales.c \
	tools/quantise_scales.h \
	tools/results.c \
	tools/results.h \
	tools/ring_options.c \
	tools/ring_options.h \
	tools/ring_share.c \
	tools/ring_share.h \
	tools/run_key_sums.c \
	tools/run_key_sums.h \
	tools/role_list.h \
	tools/safetensors.c \
	tools/safetensors.h \
	tools/safetensors_header.c \
	tools/safetensors_header.h \
	tools/safetensors_index.c \
	tools/safetensors_index.h \
	tools/several.c \
	tools/several.h \
	tools/show.c \
	tools/show.h \
	tools/split_mix.h \
	tools/standard_files.c \
	tools/standard_files.h \
	tools/strategy_list.c \
	tools/strategy_list.h \
	tools/summary.c \
	tools/summary.h \
	tools/system.h \
	tools/system_posix.c \
	tools/tensor.c \
	tools/tensor.h \
	tools/tune.c \
	tools/tune.h \
	tools/tune_run.c \
	tools/tune_run.h \
	tools/tune_strategies.c \
	tools/tune_strategies.h \
	tools/tune_wisdom.c \
	tools/tune_wisdom.h \
	tools/user_blocks.c \
	tools/user_blocks.h \
	tools/user_text.c \
	tools/user_text.h \
	tools/user_text_inputs.c \
	tools/check_text.c \
	tools/check_text.h \
	tools/tune_verify.c \
	tools/labels.c \
	tools/labels.h

# In place of those that need cairo, and of those for POSIX, where CMakeLists.txt builds so.
EXTRA_DIST += tools/plot_none.c
EXTRA_DIST += tools/child_windows.c tools/place_windows.c tools/system_windows.c tools/clattn.rc tools/clattn.manifest

clattn_LDADD = libclattn_tool.la libclattn_core.la
clattn_CFLAGS = $(AM_CFLAGS) $(HARDENING_PROGRAM_CFLAGS)
clattn_LDFLAGS = $(AM_LDFLAGS) $(HARDENING_PROGRAM_LDFLAGS)
clattn_SOURCES = \
	tools/main.c

# What `clattn ring` becomes where mpirun started it.
clattn_ring_SOURCES = \
	mpi/clattn_mpi.c \
	tools/ranks/check_ranks.c \
	tools/ranks/check_ranks.h \
	tools/ranks/ring_ranks.c \
	tools/ranks/shard.c \
	tools/ranks/shard.h
clattn_ring_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/mpi -I$(srcdir)/tools
clattn_ring_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS) $(HARDENING_PROGRAM_CFLAGS)
clattn_ring_LDFLAGS = $(AM_LDFLAGS) $(HARDENING_PROGRAM_LDFLAGS)
clattn_ring_LDADD = libclattn_tool.la libclattn_ranks.la libclattn_core.la $(MPI_LIBS) -lpthread

# The lessons' own kernels.
nodist_libclattn_tool_la_SOURCES = tools/lesson/kernels.c
LESSON_KERNELS = \
	tools/lesson/softmax.cl
EXTRA_DIST += $(LESSON_KERNELS)
tools/lesson/kernels.c: $(LESSON_KERNELS) scripts/embed_files Makefile
	$(AM_V_GEN)$(MKDIR_P) tools/lesson && cd $(srcdir) && \
	scripts/embed_files lesson_kernels tools/lesson $(LESSON_KERNELS) >"$(abs_builddir)/$@.new" && \
	mv "$(abs_builddir)/$@.new" "$(abs_builddir)/$@"
CLEANFILES += tools/lesson/kernels.c

# The shapes that `clattn bench` measures by itself, as a C string.
tools/bench_shapes_text.h: $(srcdir)/bench/shapes.txt Makefile
	$(AM_V_GEN)$(MKDIR_P) tools && \
	$(SED) 's/["\\]/\\&/g; s/.*/"&\\n"/' $(srcdir)/bench/shapes.txt >$@.new && mv $@.new $@
$(libclattn_tool_la_OBJECTS): tools/bench_shapes_text.h
CLEANFILES += tools/bench_shapes_text.h
EXTRA_DIST += bench/shapes.txt bench/chart.py bench/timing.py bench/calls bench/compare bench/models
EXTRA_DIST += bench/peer-environment bench/python-figures bench/runtimes
EXTRA_DIST += bench/scale/curves bench/scale/figures.csv bench/scale/measure bench/scale/model.py
EXTRA_DIST += bench/scale/ring_measure.c bench/scale/ring_model.c bench/scale/words.h
EXTRA_DIST += bench/decoders/compare bench/decoders/environment bench/decoders/ggml_decode.c
EXTRA_DIST += bench/decoders/model bench/decoders/llama_steps.c

EXTRA_DIST += examples/data

# What the lesson of a sentence reads.
if TOOL
dist_pkgdata_DATA = examples/data/money-bank-grows-layer0.safetensors
noinst_LTLIBRARIES += libclattn_tool.la
bin_PROGRAMS += clattn
if MPI
pkglibexec_PROGRAMS = clattn-ring
endif

# What shells complete with, by the command itself: a cross build cannot run it.
if NATIVE
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
nodist_bashcompletion_DATA = tools/completions/clattn
nodist_zshcompletion_DATA = tools/completions/_clattn
nodist_fishcompletion_DATA = tools/completions/clattn.fish
completions = $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA) $(nodist_fishcompletion_DATA)
$(completions): clattn$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) tools/completions && \
	case $@ in *.fish) shell=fish ;; */_*) shell=zsh ;; *) shell=bash ;; esac; \
	./clattn$(EXEEXT) completions $$shell >$@.new && mv $@.new $@
CLEANFILES += $(completions)
endif
dist_man_MANS = man/clattn.1
endif
