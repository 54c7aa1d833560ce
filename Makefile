# The commands of a day.  CMake does the work: see CMakeLists.txt for its options, which can be given
# here as well: make CMAKE_ARGS=-DMUSEC_BLAS=blis

BUILD      ?= build
PREFIX     ?= /usr/local
CMAKE_ARGS ?=
ARGS       ?=
C_FILES     = $$(find include src bench tests fuzz examples docs -name '*.[ch]' -o -name '*.cu*')

# $(1): the directory; $(2): whether it is for the demo alone, where a directory may have been before
configure = cmake -S . -B $(1) -G Ninja $(CMAKE_ARGS) $(or $(2),-DMUSEC_DEMO=OFF)

.PHONY: all demo test matrix asan fuzz bench install format lint clean help

all: ## build the program and the libraries into build/
	@command -v cmake >/dev/null && command -v ninja >/dev/null || { \
	    echo "cmake or ninja is missing: run scripts/setup --build" >&2; exit 1; }
	$(call configure,$(BUILD)) --log-level=WARNING
	cmake --build $(BUILD)

# The demo's build has no tests, and CUDA only where there is a GPU and for its chip (cmake/cuda.cmake).
# A program that is already there is kept as it was configured, and `make` builds what is left out.
demo: ## install what is missing, build, and compare four optimizers in two minutes
	scripts/setup --demo
	$(call configure,$(BUILD),$$([ -x $(BUILD)/musec ] || echo -DMUSEC_DEMO=ON)) --log-level=NOTICE >/dev/null
	cmake --build $(BUILD) --target musec_program
	$(BUILD)/musec demo $(ARGS)

test: ## install what is missing, build, run every test and check
	scripts/setup
	$(MAKE) --no-print-directory all CMAKE_ARGS="$(CMAKE_ARGS) -DMUSEC_TESTS=ON"
	scripts/run_tests $(BUILD) $(ARGS)

matrix: all ## the tests that compute, with each kernel set of OpenBLAS; ARGS=--quick, --full
	scripts/test_matrix $(ARGS) $(BUILD)

# Tests with many cases run one in four of them here: `make test` runs all.  An allocation is remembered
# with eight frames of its stack instead of thirty, which takes a tenth less time.
asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer, in build-asan/
	scripts/setup
	$(call configure,build-asan) -DMUSEC_CUDA=OFF -DMUSEC_SANITIZE=ON -DCMAKE_BUILD_TYPE=Debug --log-level=WARNING
	cmake --build build-asan
	MUSEC_TEST_CASES=4 ASAN_OPTIONS=malloc_context_size=8:$$ASAN_OPTIONS scripts/run_tests build-asan $(ARGS)

fuzz: ## throw random bytes at what reads files, in build-fuzz/; ARGS="TARGET SECONDS"
	scripts/setup --fuzz
	scripts/fuzz $(ARGS)

bench: all ## time operators, optimizer steps and training steps on this machine
	$(BUILD)/musec bench ops $(ARGS)
	$(BUILD)/musec bench step $(ARGS)
	$(BUILD)/musec bench train $(ARGS)

install: ## install below DESTDIR and PREFIX (default /usr/local)
	$(call configure,$(BUILD)) -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING
	cmake --build $(BUILD)
	DESTDIR=$(DESTDIR) cmake --install $(BUILD)

format: ## format every C file
	clang-format -i $(C_FILES)

lint: all ## the style check, clang-tidy and cppcheck alone
	scripts/check_style
	cmake --build $(BUILD) --target lint -- -k 0
	scripts/run_cppcheck $(BUILD)

clean: ## remove what was built
	rm -rf $(BUILD) build-asan build-fuzz

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.* ## /  make \1\t/p' Makefile | expand -t 16
