# The documents. Included by the Makefile.am at the top.

nobase_dist_doc_DATA += \
	NEWS \
	README.md \
	docs/README.md \
	docs/decode.md \
	docs/enqueue.md \
	docs/features.md \
	docs/from-others.md \
	docs/layer.md \
	docs/limits.md \
	docs/masks.md \
	docs/matrix-units.md \
	docs/measured.md \
	docs/merge.md \
	docs/numbers.md \
	docs/offline-compilers.md \
	docs/packed.md \
	docs/plans.md \
	docs/program-cache.md \
	docs/runtimes.md \
	docs/sixteen-bits.md \
	docs/threads.md \
	docs/types.md \
	docs/speed.svg
