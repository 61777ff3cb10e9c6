# What people type; what it does is in the programs.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARDS := $(TARGET)/release/cards

.PHONY: help run test test-full bench soak man dist

help:
	@echo 'make run    build and show the main job on this machine'
	@echo 'make test   all tests that are not long'
	@echo 'make test-full  all tests, with the long ones and those that test the tests'
	@echo 'make bench  measure side by side with other NBD servers'
	@echo 'make soak   fault injection from fresh seeds, until one fails or Ctrl-C'
	@echo 'make man    the man pages, into target/man'
	@echo 'make dist   a Debian package, into target/dist'

run:
	$(CARGO) build --release --bin cards
	$(CARDS) demo

test:
	.ci/test

test-full: test
	$(CARGO) test --locked --profile sim -p cards --test e2e -- --ignored

bench:
	$(CARGO) build --release --bin cards --bin cards-bench
	$(CARDS) bench run

soak:
	$(CARGO) run --profile sim --bin cards -- check --seeds $$(date +%s)000000..

man:
	$(CARGO) build --release --bin cards
	$(CARDS) man --out $(TARGET)/man

dist:
	$(CARGO) build --release --bin cards
	packaging/build-deb $(CARDS) $(TARGET)/dist
