# The Python package; scripts/wheel makes the wheel of a tarball.
EXTRA_DIST += \
	python/clattn/__init__.py \
	python/clattn/_arrays.py \
	python/clattn/_attention.py \
	python/clattn/_cache.py \
	python/clattn/_command.py \
	python/clattn/_context.py \
	python/clattn/_derivative_call.py \
	python/clattn/_derivatives.py \
	python/clattn/_errors.py \
	python/clattn/_fields.py \
	python/clattn/_gradients.py \
	python/clattn/_layout.py \
	python/clattn/_library.py \
	python/clattn/_merge.py \
	python/clattn/_opencl.py \
	python/clattn/_norms.py \
	python/clattn/_prepared.py \
	python/clattn/_problem.py \
	python/clattn/_runtime.py \
	python/clattn/_sequences.py \
	python/clattn/_show.py \
	python/clattn/_torch_calls.py \
	python/clattn/_torch_dispatch.py \
	python/clattn/_torch_formula.py \
	python/clattn/_torch_operator.py \
	python/clattn/_torch_rotary.py \
	python/clattn/_torch_sdpa.py \
	python/clattn/_xla.py \
	python/clattn/flash_attn.py \
	python/clattn/jax.py \
	python/clattn/torch.py \
	python/clattn/transformers.py \
	python/clattn/py.typed \
	python/pyproject.toml \
	python/setup.py \
	python/tools/make_layout.py
