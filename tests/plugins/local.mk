# Tests of plugins/, by ./check --all: each needs an engine, which is fetched.
EXTRA_DIST += \
	tests/plugins/fetch_published \
	tests/plugins/ggml \
	tests/plugins/ggml_cases.h \
	tests/plugins/ggml_nodes.c \
	tests/plugins/ggml_source \
	tests/plugins/killed.py \
	tests/plugins/llama_nodes.c \
	tests/plugins/nodes.c \
	tests/plugins/nodes.h \
	tests/plugins/onnxruntime \
	tests/plugins/onnxruntime_packages \
	tests/plugins/ort_contributed.py \
	tests/plugins/ort_decoders.py \
	tests/plugins/ort_models.py \
	tests/plugins/ort_nodes.py \
	tests/plugins/ort_patterns.py \
	tests/plugins/ort_process.py \
	tests/plugins/ort_published.py \
	tests/plugins/ort_refused.py \
	tests/plugins/ort_session.py \
	tests/plugins/ort_speed.py \
	tests/plugins/ort_threads.py
