# What people type; what it does is in the programs.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARDS := $(TARGET)/release/cards
# Where .ci/suites puts what no package has.
export PATH := $(abspath $(TARGET))/tools/bin:$(PATH)

.PHONY: help run test test-full suites bench soak man dist image

help:
	@echo 'make run    build and show the main job on this machine'
	@echo 'make test   all tests that are not long'
	@echo 'make test-full  all tests, with the long ones and those that test the tests'
	@echo 'make bench  measure side by side with other NBD servers, and what many nodes cost'
	@echo 'make soak   fault injection from fresh seeds, until one fails or Ctrl-C'
	@echo 'make man    the man pages, into target/man'
	@echo 'make dist   a Debian package, into target/dist'
	@echo 'make image  a container image, into target/dist'

run:
	$(CARGO) build --release --bin cards
	$(CARDS) demo

test:
	.ci/test

test-full: suites test
	$(CARGO) test --locked --profile sim -p cards-locks --test locks -- --ignored
	$(CARGO) test --locked --profile sim -p cards-model -- --ignored
	CARDS_TEST_FULL=1 $(CARGO) test --locked --profile sim -p cards --test e2e -- --include-ignored

suites:
	.ci/suites $(TARGET)/tools

bench:
	$(CARGO) build --release --bin cards --bin cards-bench
	$(CARDS) bench run
	$(CARDS) bench scale

soak:
	$(CARGO) run --profile sim --bin cards -- check --seeds $$(date +%s)000000..

man:
	$(CARGO) build --release --bin cards
	$(CARDS) man --out $(TARGET)/man

dist:
	packaging/build-program $(TARGET)/dist/build
	packaging/build-deb $(TARGET)/dist/build/release/cards $(TARGET)/dist

image:
	packaging/build-program $(TARGET)/dist/build
	packaging/build-image $(TARGET)/dist/build/release/cards $(TARGET)/dist
