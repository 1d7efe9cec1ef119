# The front door. Building is done by meson and ninja in build/; see meson.build.
# `make run` and `make test` need nothing but Debian 12: they install what is missing.

SEEDS ?= 10000
FUZZ_SECONDS ?= 60
TESTED := build build-asan:unit,store,run,sim,cli $(if $(wildcard tests/fuzz/*.c),build-fuzz:fuzz)
TESTED_FOLDERS := $(foreach target,$(TESTED),$(firstword $(subst :, ,$(target))))
TARGETS := all meson-test-prereq

# An installation elsewhere than asked for is worse than none.
ifeq ($(filter install,$(MAKECMDGOALS))$(origin PREFIX),installcommand line)
$(error PREFIX is not honoured; write it in lower case: make install prefix=$(PREFIX))
endif

.PHONY: all run test check bench lint format asan tsan fuzz sim install clean help
.NOTPARALLEL:

all: setup-check build/build.ninja ## build build/tend and the library (the default)
	@ninja -C build product

run: setup-build build/build.ninja ## set up, build, show what tend does
	@ninja -C build product
	build/tend demo

test: setup-test $(TESTED_FOLDERS:=/build.ninja) ## set up, build, run every test; also with sanitizers, and fuzz a little; ONLY=store/claim: some
	@for folder in $(TESTED_FOLDERS); do ninja -C $$folder $(TARGETS) || exit; done
	@env TEND_FUZZ_SECONDS=5 ONLY=$(ONLY) tools/with-postgres tools/run-tests $(TESTED)

check: setup-test build/build.ninja ## the quick part: unit tests and the house
	@ninja -C build $(TARGETS)
	@tools/run-tests build:unit,house

bench: setup-build build/build.ninja ## measure tend against the bare database
	@ninja -C build product
	@if [ -x /usr/lib/postgresql/15/bin/postgres ]; then \
		tools/with-postgres sh -c 'exec build/tend bench --postgres "$$TEND_TEST_PG_URL"'; \
	else build/tend bench; fi

lint: setup-test build/build.ninja ## formatting, layers, clang-tidy, cppcheck
	@ninja -C build $(TARGETS)
	@tools/lint build

format: setup-test ## format every C file
	@tools/check-format --fix

asan: setup-test build-asan/build.ninja ## every test with address and undefined-behaviour sanitizers
	@ninja -C build-asan $(TARGETS)
	@tools/with-postgres tools/run-tests build-asan

tsan: setup-test build-tsan/build.ninja ## unit, store and run tests with the thread sanitizer
	@ninja -C build-tsan $(TARGETS)
	@tools/with-postgres tools/run-tests build-tsan:unit,store,run

fuzz: setup-test build-fuzz/build.ninja ## FUZZ_SECONDS=60 of every fuzz program
	@ninja -C build-fuzz $(TARGETS)
	@env TEND_TEST_TIMEOUT_S=0 TEND_FUZZ_SECONDS=$(FUZZ_SECONDS) tools/run-tests build-fuzz:fuzz

sim: setup-test build/build.ninja ## SEEDS=10000 simulated histories on each store, without a time limit
	@ninja -C build $(TARGETS)
	@env TEND_TEST_TIMEOUT_S=0 TEND_SIM_SEEDS=$(SEEDS) tools/with-postgres tools/run-tests build:sim

install: setup-check build/build.ninja ## install; prefix=/usr/local and DESTDIR= are honoured
	@$(if $(prefix),meson configure build -Dprefix=$(prefix))
	@ninja -C build product
	@meson install -C build --no-rebuild $(if $(DESTDIR),--destdir $(DESTDIR))

clean: ## remove everything that was built
	rm -rf build build-asan build-tsan build-fuzz

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/    make \1\t\2/p' Makefile | expand -t 20

.PHONY: setup-check setup-build setup-test
setup-check:
	@tools/setup --check build
setup-build:
	@tools/setup build
setup-test:
	@tools/setup build test

build/build.ninja:
	meson setup build
build-asan/build.ninja:
	meson setup build-asan -Dbuildtype=debug -Doptimization=1 -Db_sanitize=address,undefined
build-tsan/build.ninja:
	meson setup build-tsan -Dbuildtype=debug -Doptimization=1 -Db_sanitize=thread
build-fuzz/build.ninja:
	CC=clang meson setup build-fuzz -Dbuildtype=debug -Doptimization=1 -Db_sanitize=address,undefined \
		-Db_lundef=false -Dwerror=false -Dfuzz=true
