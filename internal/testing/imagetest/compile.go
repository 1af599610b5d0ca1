package imagetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

// compile returns the static program of a source. It caches programs beside Go's own build cache,
// because linking takes a second.
func compile(source string) ([]byte, error) {
	sum := sha256.Sum256([]byte(runtime.Version() + runtime.GOARCH + "\x00" + source))
	kept := filepath.Join(cacheDir(), hex.EncodeToString(sum[:]))
	if program, err := os.ReadFile(kept); err == nil {
		return program, nil
	}
	dir, err := os.MkdirTemp("", "croft-program-")
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a folder")
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"main.go": source, "go.mod": "module program\n\ngo 1.24\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, errors.Wrap(err, "cannot write a program")
		}
	}
	program, err := build(dir, ".")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cacheDir(), 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the cache of programs")
	}
	return program, errors.Wrap(atomicfile.WriteFile(kept, program, 0o700), "cannot keep a program")
}

func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "croft-imagetest")
}

// compilePackage compiles a package of the module that the test runs in.
func compilePackage(dir string) ([]byte, error) {
	if filepath.IsAbs(dir) {
		return build(dir, ".")
	}
	return build("", dir)
}

func build(dir, what string) ([]byte, error) {
	out, err := os.MkdirTemp("", "croft-build-")
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a folder")
	}
	defer os.RemoveAll(out)
	at := filepath.Join(out, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", at, what) //nolint:noctx // a compiler ends by itself
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, errors.Wrapf(err, "cannot compile %s: %s", what, said.String())
	}
	program, err := os.ReadFile(at)
	return program, errors.Wrap(err, "cannot read a program")
}
