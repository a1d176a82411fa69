# The examples of the documents: each a whole program that checks what it computed. Included by the Makefile.am at the top.

example_programs = \
	examples/attention \
	examples/decode \
	examples/enqueue \
	examples/layer \
	examples/masks \
	examples/merge \
	examples/packed \
	examples/sixteen_bits \
	examples/threads

# Against the library as it is installed, with nothing of its insides.
example_libraries = libclattn.la $(OPENCL_LIBS) -lm
examples_attention_LDADD = $(example_libraries)
examples_decode_LDADD = $(example_libraries)
examples_enqueue_LDADD = $(example_libraries)
examples_layer_LDADD = $(example_libraries)
examples_masks_LDADD = $(example_libraries)
examples_merge_LDADD = $(example_libraries)
examples_packed_LDADD = $(example_libraries)
examples_sixteen_bits_LDADD = $(example_libraries)
examples_threads_LDADD = $(example_libraries) -lpthread

if TESTS_ENABLED
check_PROGRAMS += $(example_programs)
TESTS += $(example_programs)
endif

nobase_dist_doc_DATA += \
	examples/CMakeLists.txt \
	examples/Makefile \
	examples/attention.c \
	examples/decode.c \
	examples/enqueue.c \
	examples/example.h \
	examples/layer.c \
	examples/masks.c \
	examples/merge.c \
	examples/packed.c \
	examples/sixteen_bits.c \
	examples/threads.c
