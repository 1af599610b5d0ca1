package image_test

import (
	"archive/tar"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// random is a file that can't be packed.
func random(name string, size int) (tar.Header, []byte) {
	b := make([]byte, size)
	var seed [32]byte
	copy(seed[:], name)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, b
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	must(t, unix.Mkfifo(path, 0o644))
}
