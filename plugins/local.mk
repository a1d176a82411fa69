# What puts clattn into other engines: source, which is compiled against the engine's own. Included by the
# Makefile.am at the top; installed beside the examples.
nobase_dist_doc_DATA += \
	plugins/ggml/CMakeLists.txt \
	plugins/ggml/attention.c \
	plugins/ggml/attention.h \
	plugins/ggml/backend.c \
	plugins/ggml/declined.c \
	plugins/ggml/declined.h \
	plugins/ggml/mask.c \
	plugins/ggml/mask.h \
	plugins/onnxruntime/CMakeLists.txt \
	plugins/onnxruntime/attention.c \
	plugins/onnxruntime/claim.c \
	plugins/onnxruntime/claim.h \
	plugins/onnxruntime/declined.c \
	plugins/onnxruntime/declined.h \
	plugins/onnxruntime/device.c \
	plugins/onnxruntime/device.h \
	plugins/onnxruntime/graph.c \
	plugins/onnxruntime/graph.h \
	plugins/onnxruntime/group_query.c \
	plugins/onnxruntime/group_query.h \
	plugins/onnxruntime/group_query_cache.c \
	plugins/onnxruntime/kernel.c \
	plugins/onnxruntime/kernel.h \
	plugins/onnxruntime/multi_head.c \
	plugins/onnxruntime/operands.c \
	plugins/onnxruntime/operands.h \
	plugins/onnxruntime/ort.c \
	plugins/onnxruntime/ort.h \
	plugins/onnxruntime/pattern.c \
	plugins/onnxruntime/pattern.h \
	plugins/onnxruntime/plans.c \
	plugins/onnxruntime/plans.h \
	plugins/onnxruntime/provider.c \
	plugins/onnxruntime/rotary.c \
	plugins/onnxruntime/rotary.h \
	plugins/onnxruntime/softmax.c \
	plugins/onnxruntime/python/onnxruntime_ep_clattn/__init__.py \
	plugins/onnxruntime/python/pyproject.toml \
	plugins/onnxruntime/python/setup.py \
	plugins/shared/counts.c \
	plugins/shared/counts.h \
	plugins/shared/plugin.cmake
