# The tests of the Python package, which tests/python/run runs on a build.
EXTRA_DIST += \
	tests/python/bounds.py \
	tests/python/calls.py \
	tests/python/chroots \
	tests/python/count.py \
	tests/python/fetch_minilm.sh \
	tests/python/run \
	tests/python/page_programs.py \
	tests/python/test_again.py \
	tests/python/test_broken_ranks.py \
	tests/python/test_calls.py \
	tests/python/test_clattn.py \
	tests/python/test_derivatives.py \
	tests/python/test_flash_attn.py \
	tests/python/test_flex.py \
	tests/python/test_flex_models.py \
	tests/python/test_diffusers_keras.py \
	tests/python/test_dispatch.py \
	tests/python/test_jax.py \
	tests/python/test_key_sums.py \
	tests/python/test_models.py \
	tests/python/test_mpi.py \
	tests/python/test_opinfo.py \
	tests/python/test_package.py \
	tests/python/test_process.py \
	tests/python/test_pytorch.py \
	tests/python/test_patterns.py \
	tests/python/test_ranks.py \
	tests/python/test_ranks_model.py \
	tests/python/test_readers.py \
	tests/python/test_silence.py \
	tests/python/test_torch.py \
	tests/python/test_transformers.py \
	tests/python/test_varlen.py \
	tests/python/test_wheel.py \
	tests/python/wheel \
	tests/python/without_cuda

# The command's readers, for test_readers.py.
tests_python_read_files_SOURCES = tests/python/read_files.c
if TESTS_ENABLED
check_PROGRAMS += tests/python/read_files
endif
