package vmguest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/initrd"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// kernels has a folder for each version of the kernel; bootstrap/guest makes them.
	kernels = "/var/cache/croft-tests/guest"
	// initrds has the initrds, by their content's hash.
	initrds = "/var/cache/croft-tests/initrd"
	// keepInitrd is how long an initrd stays that no test asks for.
	keepInitrd = 7 * 24 * time.Hour
)

// Guest is what a virtual machine boots. Everybody may read the files.
type Guest struct {
	// Kernel is a bzImage.
	Kernel string
	// Initrd is a gzipped cpio archive.
	Initrd string
}

// Build makes the guest; the program is compiled once for all tests until its source changes.
func Build(t testing.TB) Guest {
	t.Helper()
	g, err := Make()
	if err != nil {
		t.Fatalf("vmguest: cannot make the guest: %v", err)
	}
	return g
}

// Make is Build without a test.
func Make() (Guest, error) {
	if runtime.GOARCH != "amd64" {
		return Guest{}, fmt.Errorf("the guest runs on amd64 only, not on %s", runtime.GOARCH)
	}
	dir, err := newestKernel()
	if err != nil {
		return Guest{}, err
	}
	root, err := moduleRoot()
	if err != nil {
		return Guest{}, err
	}
	key, err := sourceKey(root)
	if err != nil {
		return Guest{}, err
	}
	g := Guest{
		Kernel: filepath.Join(dir, "vmlinuz"),
		Initrd: filepath.Join(initrds, hash(key, dir, runtime.Version())+".gz"),
	}
	now := time.Now()
	if err := os.Chtimes(g.Initrd, now, now); err == nil {
		return g, nil
	}
	program, err := compile(root)
	if err != nil {
		return Guest{}, err
	}
	modules, err := initrd.ReadFolder(filepath.Join(dir, "modules"))
	if err != nil {
		return Guest{}, err
	}
	if err := os.MkdirAll(initrds, 0o755); err != nil {
		return Guest{}, err
	}
	removeOld()
	packed, err := initrd.Pack(program, modules)
	if err != nil {
		return Guest{}, err
	}
	return g, atomicfile.WriteFile(g.Initrd, packed, 0o644)
}

// newestKernel is the folder of the kernel that was built last.
func newestKernel() (string, error) {
	found, err := filepath.Glob(filepath.Join(kernels, "*", "vmlinuz"))
	if err != nil {
		return "", err
	}
	var newest string
	var when time.Time
	for _, name := range found {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		if info.ModTime().After(when) {
			newest, when = filepath.Dir(name), info.ModTime()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("there is no kernel in %s: bootstrap/setup tests fetches it", kernels)
	}
	return newest, nil
}

// removeOld removes initrds that no test asked for in a week.
func removeOld() {
	names, _ := filepath.Glob(filepath.Join(initrds, "*.gz"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > keepInitrd {
			os.Remove(name)
		}
	}
}

func compile(root string) ([]byte, error) {
	out, err := os.MkdirTemp("", "croft-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(out)
	at := filepath.Join(out, "init")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", at, "./"+programDir) //nolint:noctx // a compiler ends by itself
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off", "GOOS=linux", "GOARCH=amd64")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot compile the guest's program: %w: %s", err, said.String())
	}
	return os.ReadFile(at)
}

func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		io.WriteString(h, p+"\x00") //nolint:errcheck // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
