# What puts clattn into other engines: source, which is compiled against the engine's own. Included by the Makefile.am at
# the top; installed beside the examples.
nobase_dist_doc_DATA += \
	plugins/ggml/CMakeLists.txt \
	plugins/ggml/attention.c \
	plugins/ggml/attention.h \
	plugins/ggml/backend.c \
	plugins/ggml/declined.c \
	plugins/ggml/declined.h \
	plugins/ggml/mask.c \
	plugins/ggml/mask.h
