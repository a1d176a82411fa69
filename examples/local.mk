# The examples of the documents: each a whole program that checks what it computed. Included by the Makefile.am at the
# top.

example_programs = \
	examples/attention \
	examples/cache \
	examples/decode \
	examples/enqueue \
	examples/gradients \
	examples/group \
	examples/key_sums \
	examples/layer \
	examples/masks \
	examples/merge \
	examples/packed \
	examples/sixteen_bits \
	examples/threads

# Against the library as it is installed, with nothing of its insides.
example_libraries = libclattn.la $(OPENCL_LIBS) -lm
examples_attention_LDADD = $(example_libraries)
examples_cache_LDADD = $(example_libraries)
examples_decode_LDADD = $(example_libraries)
examples_enqueue_LDADD = $(example_libraries)
examples_gradients_LDADD = $(example_libraries)
examples_group_LDADD = $(example_libraries)
examples_layer_LDADD = $(example_libraries)
examples_masks_LDADD = $(example_libraries)
examples_merge_LDADD = $(example_libraries)
examples_packed_LDADD = $(example_libraries)
examples_sixteen_bits_LDADD = $(example_libraries)
examples_threads_LDADD = $(example_libraries) -lpthread

# An engine of several files. It takes a model, and so has tests of its own: tests/generate.
examples_generate_generate_LDADD = $(example_libraries)
examples_generate_generate_SOURCES = $(generate_sources)
generate_sources = \
	examples/generate/cache.c \
	examples/generate/cache.h \
	examples/generate/engine.c \
	examples/generate/engine.h \
	examples/generate/failure.h \
	examples/generate/generate.c \
	examples/generate/gguf.c \
	examples/generate/gguf.h \
	examples/generate/kernels.h \
	examples/generate/model.c \
	examples/generate/model.h \
	examples/generate/options.c \
	examples/generate/options.h \
	examples/generate/show.c \
	examples/generate/show.h \
	examples/generate/tokeniser.c \
	examples/generate/tokeniser.h \
	examples/generate/words.c \
	examples/generate/words.h

# For bench/decoders/model, and made when it is named.
EXTRA_PROGRAMS = bench/decoders/clattn_steps
CLEANFILES += bench/decoders/clattn_steps
bench_decoders_clattn_steps_LDADD = $(example_libraries)
bench_decoders_clattn_steps_SOURCES = \
	bench/decoders/clattn_steps.c \
	examples/generate/cache.c \
	examples/generate/engine.c \
	examples/generate/gguf.c \
	examples/generate/model.c

if TESTS_ENABLED
check_PROGRAMS += $(example_programs) examples/generate/generate
TESTS += $(example_programs)
endif

nobase_dist_doc_DATA += \
	examples/CMakeLists.txt \
	examples/Makefile \
	examples/attention.c \
	examples/cache.c \
	examples/decode.c \
	examples/enqueue.c \
	examples/example.h \
	examples/generate/fetch.sh \
	examples/generate/fetch_model.sh \
	$(generate_sources) \
	examples/gradients.c \
	examples/group.c \
	examples/key_sums.c \
	examples/layer.c \
	examples/masks.c \
	examples/merge.c \
	examples/packed.c \
	examples/python/attention_picture.py \
	examples/python/decoder_cache.py \
	examples/python/draft_tree.py \
	examples/python/numpy_attention.py \
	examples/python/sentence_encoder.py \
	examples/python/torch_model.py \
	examples/sixteen_bits.c \
	examples/threads.c
