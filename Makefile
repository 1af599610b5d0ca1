# croft: see README.md. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN     := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# Without the pages of gRPC's traces, which nobody serves: see docs/adr/0050-linked-methods.md.
TAGS := grpcnotrace
LINT_VERSION := v2.15.0
VULN_VERSION := v1.3.0

# What the boot image of a node is made with.
IMAGE_PACKAGES := squashfs-tools kmod xz-utils grub-pc-bin grub-efi-amd64-bin grub-common xorriso mtools dosfstools
IMAGE_OPTIONS = $(if $(KERNEL),-kernel $(KERNEL)) $(if $(SIGN),-sign $(abspath $(SIGN))) $(if $(LEVEL),-level $(LEVEL))

# The binaries are static: they run on any machine of this kind.
BINARIES := croftd croft explorer croft-init zdb

# In a chroot no user namespace can be made, and containers need one each.
UNCHROOT := go run ./bootstrap/unchroot

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: root
root:
	@[ "$$(id -u)" = 0 ] || { echo "this needs root: croft makes loop devices, btrfs pools and mounts, and installs Debian packages (run it with sudo)" >&2; exit 1; }

.PHONY: setup
setup: root ## install what croft needs (Debian packages)
	@bootstrap/setup

.PHONY: setup-tests
setup-tests: root ## install what the tests need too: a C compiler, Chromium and others
	@bootstrap/setup tests

.PHONY: build
build: ## build croftd, croft, explorer, croft-init and zdb into bin/
	@mkdir -p $(BIN)
	@for b in $(BINARIES); do echo "building bin/$$b"; CGO_ENABLED=0 go build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/$$b ./cmd/$$b; done

.PHONY: image
image: root ## build the boot image of a node into bin/node; SIGN= a file with the key that signs it, KERNEL=6.12 a newer kernel, LEVEL=9 for a fast build
	@bootstrap/setup $(IMAGE_PACKAGES)
	@go run -trimpath ./bootstrap/node/build -version '$(VERSION)' -commit '$(COMMIT)' -out $(BIN)/node $(IMAGE_OPTIONS)

.PHONY: run-vm
run-vm: setup build image ## boot the image in QEMU with an explorer beside it; PARAMETERS= for the kernel, KVM=yes where QEMU can use it
	@go run -trimpath ./bootstrap/node/run -bin $(BIN) -image $(BIN)/node $(if $(KVM),-kvm) -parameters '$(PARAMETERS)'

.PHONY: image-check
image-check: root ## build the boot image of a node twice, from two copies of the last commit, and compare the checksums of all files
	@bootstrap/setup $(IMAGE_PACKAGES)
	@bootstrap/node/check '$(VERSION)' '$(COMMIT)' $(IMAGE_OPTIONS)

.PHONY: kubernetes-image
kubernetes-image: root ## build the image of Kubernetes nodes into bin/kubernetes; long the first time: it compiles Kubernetes
	@bootstrap/setup squashfs-tools kmod xz-utils gcc libc6-dev libseccomp-dev pkg-config
	@go run -trimpath ./bootstrap/kubernetes/build -version '$(VERSION)' -out $(BIN)/kubernetes

# kubectl, for the tests and the demo of the image: it isn't in the image.
.PHONY: kubectl
kubectl:
	@cd bootstrap/kubernetes/parts/kubectl && CGO_ENABLED=0 go build -mod=readonly -trimpath \
	  -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3' -o $(BIN)/kubectl .

.PHONY: test-kubernetes
test-kubernetes: setup-tests kubernetes-image kubectl ## the image of Kubernetes nodes through an explorer and two nodes: joining, pods, a power cut
	@for part in bootstrap/kubernetes/parts/*/; do (cd "$$part" && go mod tidy -diff); done
	@cd bootstrap/kubernetes/parts/kubernetes && CGO_ENABLED=0 go test -trimpath -tags=notest,grpcnotrace ./...
	@$(TRIMPATH); $(UNCHROOT) go test -tags kubernetes -v -count=1 -timeout 30m ./bootstrap/kubernetes/e2e \
	  -image $(BIN)/kubernetes -kubectl $(BIN)/kubectl

# UEFI and iPXE, beside the image and what all tests need.
BOOT_PACKAGES := ovmf ipxe
BOOT_TEST := $(UNCHROOT) go test -v -count=1
BOOT_FLAGS := ./bootstrap/node/e2e -image $(BIN)/node -keep $(BIN)/test-boot

.PHONY: test-boot
test-boot: setup-tests image ## the boot image in QEMU, by BIOS and UEFI: workloads, power cuts without an explorer, killed parts, a damaged record
	@bootstrap/setup $(BOOT_PACKAGES)
	@$(TRIMPATH); $(BOOT_TEST) -tags boot -run '^Test(BIOS|UEFI)$$' -timeout 30m $(BOOT_FLAGS)

.PHONY: test-boot-more
test-boot-more: setup-tests image ## every medium's boot loader, two booted nodes, no network and a wrong clock, no disk, bad signatures, upgrades, budgets, the watchdog; 40 minutes
	@bootstrap/setup $(BOOT_PACKAGES)
	@$(TRIMPATH); $(BOOT_TEST) -tags boot -timeout 30m ./bootstrap/node/media
	@$(TRIMPATH); $(BOOT_TEST) -tags boot -run '^Test(Pair|NetworkBoot|Offline|Diskless|Signature|Upgrade|Budgets|Watchdog)$$' -timeout 60m $(BOOT_FLAGS)

.PHONY: test-boot-long
test-boot-long: setup-tests image ## 20 power cuts at random moments while reservations flow, an image that is never ready, an engine that stays stuck; 45 minutes
	@bootstrap/setup $(BOOT_PACKAGES)
	@$(TRIMPATH); $(BOOT_TEST) -tags boot,long -run '^Test(PowerCuts|NeverReady|StuckEngine)$$' -timeout 60m $(BOOT_FLAGS)

# The modules' tests in a booted node of bin/node. ACCEL=-kvm where QEMU can use KVM: without it this takes more than an
# hour; ACCEL=-single for the image of KERNEL=6.12 without it.
.PHONY: test-boot-inside
test-boot-inside: setup-tests image ## the tests of storage, networks and containers inside a booted node of the image; INSIDE= for a part
	@bootstrap/setup mmdebstrap e2fsprogs
	@TEST_LOG=$(BIN)/inside.log; export TEST_LOG; go run ./bootstrap/node/inside $(ACCEL) -image $(BIN)/node -work $(BIN)/inside $(INSIDE) | bootstrap/testlog

.PHONY: demo-kubernetes
demo-kubernetes: setup build kubernetes-image kubectl ## a Kubernetes cluster on a node, in front of you: from a reservation to a pod
	@bootstrap/setup openssh-client
	@$(UNCHROOT) go run ./bootstrap/demo -bin $(BIN) -kubernetes-image $(BIN)/kubernetes -kubectl $(BIN)/kubectl

.PHONY: demo
demo: setup build ## the main job, in front of you: explorer, node, volumes, bad days
	@bootstrap/guest
	@$(UNCHROOT) go run ./bootstrap/demo -bin $(BIN)

.PHONY: demo-state
demo-state: setup build ## the node's memory, in front of you: a mirror on an S3 server, a lost store and a lost key restored from it
	@bootstrap/guest
	@cd bootstrap/s3server && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags '-s -w' -o $(BIN)/s3server .
	@$(UNCHROOT) go run ./bootstrap/demo -bin $(BIN) -s3server $(BIN)/s3server

# The packages that take longest, which make test begins with: one that began last would run alone at the end.
FIRST := ./cmd/croftd ./zdb ./provision ./modules/container/image ./explorer/api ./modules/container/image/unpack \
  ./cmd/croftd/internal/userapi ./modules/storage ./pkg/logs ./modules/container/rootfs ./modules/container \
  ./modules/network/carrier ./modules/network ./cmd/explorer

# The packages that make test runs: make test PKG=./modules/zdb/... runs a part.
PKG ?= $(FIRST) ./...

# The packages that take long: whole nodes, simulations, and backends in bad weather.
SLOW := bench|cmd/(croft|croftd|explorer|zdb|croft-init)|cmd/croftd/internal/userapi|internal/testing/nodetest|provision|provision/store|modules/(storage|network|zdb|container|vm)(/.*)?|zdb(/.*)?|pkg/bus(/.*)?|pkg/logs

# A process with the race detector sleeps a second before it exits, by default; tests start thousands.
test test-short: export GORACE := atexit_sleep_ms=10 $(GORACE)

# With -trimpath no path of this folder is compiled in, so that every clone uses the same build cache; tests
# that build programs use it too.
TRIMPATH := flags="$$(go env GOFLAGS)"; export GOFLAGS="$$flags -trimpath"

# The race detector watches all of croft. It leaves out the parts of libraries that only compute, on memory of
# their own: curves, decompression, SQLite's translated C, and JSON's tokens. With them the tests of explorer/api
# take twice as much of the processors.
UNWATCHED := crypto/internal/fips140/edwards25519/... filippo.io/edwards25519/... compress/flate \
  modernc.org/sqlite/lib modernc.org/libc modernc.org/memory github.com/go-json-experiment/json/jsontext \
  github.com/go-json-experiment/json/internal/...

# Most tests wait most of the time: for a process, a kernel or a timer. So ten run at once, on however few
# processors: five of two packages, also when several runs share the machine (bootstrap/turn). -w leaves out debugging data,
# which only takes time to link.
AT_ONCE := 2
WATCHED := -race $(UNWATCHED:%=-gcflags=%=-race=false)
# make lint vets.
GO_TEST := go test $(WATCHED) -vet=off -v -count=1 -p $(AT_ONCE) -exec '$(BIN)/turn $(AT_ONCE)' -parallel 5 -ldflags=-w

# All that tests are made of, and the programs that they build, is compiled before the first of them runs: compilers would
# take the processors that the tests' deadlines count on. $(COMPILE) PACKAGES compiles and links nothing.
COMPILE := go list -export -test -deps $(WATCHED)
.PHONY: programs
programs:
	@$(TRIMPATH); CGO_ENABLED=0 go build ./cmd/... ./internal/testing/...
	@cd bootstrap/s3server && CGO_ENABLED=0 GOFLAGS= go build -mod=readonly -trimpath -o /dev/null ./...

.PHONY: turn
turn:
	@mkdir -p $(BIN) && CGO_ENABLED=0 go build -trimpath -o $(BIN)/turn ./bootstrap/turn

# The race detector needs more memory than any ceiling of a process: the tests of these are run without it too.
CEILINGS := ./cmd/croftd/internal/userapi/front ./modules/container/image/unpack ./pkg/flist/database

.PHONY: test
test: setup-tests turn programs ## run every test, as root, with the race detector, nothing skipped; PKG= for a part
	@$(TRIMPATH); $(COMPILE) $(PKG) >/dev/null
ifeq ($(origin PKG),file)
	@$(TRIMPATH); $(UNCHROOT) go test -count=1 -run 'HasACeiling$$' $(CEILINGS)
endif
	@$(TRIMPATH); $(UNCHROOT) $(GO_TEST) -timeout 80m $(PKG) | bootstrap/testlog

.PHONY: test-short
test-short: setup-tests turn programs ## run the tests of the packages without whole nodes and real backends
	@$(TRIMPATH); packages="$$(go list ./... | grep -vE '^github.com/croft-edge/croft/($(SLOW))$$')"; \
	  $(COMPILE) $$packages >/dev/null; $(UNCHROOT) $(GO_TEST) -timeout 30m $$packages | bootstrap/testlog

.PHONY: race
race: test ## the same as test: the race detector is always on

.PHONY: lint
lint: ## golangci-lint, gofmt, generated files current, shell scripts
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@$(TRIMPATH); go vet ./... && go vet -tags kubernetes ./bootstrap/kubernetes/e2e && go vet -tags boot,long ./bootstrap/node/...
	@go mod tidy -diff
	@cd bootstrap/s3server && go vet . && go mod tidy -diff
	@go run ./pkg/bus/stubgen -check
	@[ "$$($(BIN)/golangci-lint version --short 2>/dev/null)" = "$(LINT_VERSION:v%=%)" ] || \
	  GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@$(TRIMPATH); $(BIN)/golangci-lint run

.PHONY: attack
attack: setup-tests ## a node and an explorer under hostile users and strangers, beside an honest user; some 9 minutes
	@$(UNCHROOT) go test -run '^$$' -bench 'BenchmarkAttack$$' -benchtime 1x -timeout 20m ./bench/

.PHONY: vuln
vuln: ## known vulnerabilities in what croft uses; needs https://vuln.go.dev, or its copy that GOVULNDB names
	@GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION)
	@$(BIN)/govulncheck $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

.PHONY: generate
generate: ## make anew the stubs of contracts, the table in docs/flow.md, the schema of settings, and the graph of controllers
	@go run ./pkg/bus/stubgen
	@go test -count=1 -run TestTheDocumentShowsTheTable ./provision/lifecycle -args -update
	@go test -count=1 -run TestTheSchemaIsPublished ./cmd/croftd/internal/config -args -update
	@bootstrap/setup graphviz
	@WRITE_DOCS=1 go test -count=1 -run TestGraphIsCurrent ./cmd/croftd/internal/daemon

.PHONY: xterm
xterm: ## fetch the terminal page's xterm.js anew, as pinned in cmd/croft-init/internal/web/xterm.json; needs npm
	@go run ./bootstrap/xterm cmd/croft-init/internal/web

.PHONY: bench-setup
bench-setup: root ## install what croft is measured against (Debian packages), and what it needs
	@bootstrap/setup tests podman

.PHONY: bench
bench: bench-setup ## measure against the budgets: budget, figure, ratio
	@go test -run '^$$' -bench . -benchtime 1x -timeout 90m ./bench/

.PHONY: bench-zdb
bench-zdb: setup-tests ## measure zdb beside redis-server: budget, figure, ratio
	@go test -run '^$$' -bench ZDB -benchtime 1x -timeout 60m ./bench/

.PHONY: fuzz
fuzz: ## fuzz what reads from the outside, a minute each
	@for t in $$(grep -rhl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$t/*_test.go | sed 's/func //'); do \
	    go test -run '^$$' -fuzz "^$$f$$" -fuzztime 60s $$t; done; done

.PHONY: simulate
simulate: ## simulate whole nodes' histories of random seeds for ten minutes
	@go test -run '^TestSimulation$$' -v -count=1 -timeout 20m ./provision/engine/ -simulate.for 10m

.PHONY: clean
clean: ## remove what was built
	@rm -rf $(BIN)
