# The documents. Included by the Makefile.am at the top.

nobase_dist_doc_DATA += \
	NEWS \
	README.md \
	docs/README.md \
	docs/cache.md \
	docs/decode.md \
	docs/engines.md \
	docs/enqueue.md \
	docs/features.md \
	docs/from-others.md \
	docs/generate.md \
	docs/ggml.md \
	docs/gradients.md \
	docs/key-sums.md \
	docs/layer.md \
	docs/limits.md \
	docs/masks.md \
	docs/matrix-units.md \
	docs/measured.md \
	docs/merge.md \
	docs/names.md \
	docs/numbers.md \
	docs/onnxruntime.md \
	docs/offline-compilers.md \
	docs/packed.md \
	docs/patterns.md \
	docs/plans.md \
	docs/program-cache.md \
	docs/ranks.md \
	docs/scale.md \
	docs/scores.md \
	docs/reliability.md \
	docs/runtimes.md \
	docs/sixteen-bits.md \
	docs/speed.md \
	docs/tested.md \
	docs/threads.md \
	docs/tuner.md \
	docs/types.md \
	docs/variables.md \
	docs/decode.svg \
	docs/money-bank-grows.svg \
	docs/scale.svg \
	docs/speed.svg \
	python/README.md

# The manual pages of the functions and the site, made of the headers and these documents where there is a python3.
docs_makers = \
	scripts/docs/header.py \
	scripts/docs/manual.py \
	scripts/docs/markdown.py \
	scripts/docs/mdoc.py \
	scripts/docs/search.js \
	scripts/docs/search.py \
	scripts/docs/site.css \
	scripts/docs/site.py
EXTRA_DIST += $(docs_makers) docs/lessons docs/decode.csv docs/speed.csv

if HAVE_PYTHON
all-local: docs/made/stamp
docs/made/stamp: $(docs_makers) $(include_HEADERS) $(nobase_dist_doc_DATA) HACKING.md man/clattn.1 \
		docs/lessons/index.html
	$(AM_V_GEN)rm -rf docs/made && $(MKDIR_P) docs/made && \
	PYTHONDONTWRITEBYTECODE=1 python3 $(srcdir)/scripts/docs/manual.py $(srcdir) docs/made/man3 && \
	PYTHONDONTWRITEBYTECODE=1 python3 $(srcdir)/scripts/docs/site.py $(srcdir) docs/made/site && touch $@

install-data-local: docs/made/stamp
	$(MKDIR_P) '$(DESTDIR)$(mandir)/man3' '$(DESTDIR)$(docdir)/html'
	$(INSTALL_DATA) docs/made/man3/*.3 '$(DESTDIR)$(mandir)/man3'
	cp -R docs/made/site/. '$(DESTDIR)$(docdir)/html' && chmod -R u+w,go+rX '$(DESTDIR)$(docdir)/html'

uninstall-local:
	for page in docs/made/man3/*.3; do rm -f '$(DESTDIR)$(mandir)/man3'/"$${page##*/}"; done
	rm -rf '$(DESTDIR)$(docdir)/html'
endif
