package image_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image/unpack"
)

// TestMain is also what unpacks a layer.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "unpack" {
		os.Exit(unpack.Serve())
	}
	if len(os.Args) == 2 && os.Args[1] == "unpack-unless-hang" {
		os.Exit(unpackUnlessHang())
	}
	goleak.VerifyTestMain(m)
}

// hang is a layer that is never unpacked by who is unpackUnlessHang.
func hang() *imagetest.Builder { return imagetest.New().Plain().File("/hang", "", 0o644) }

// unpackUnlessHang unpacks a layer as a node does, but for hang.
func unpackUnlessHang() int {
	first := make([]byte, 512)
	n, err := io.ReadFull(os.Stdin, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 1
	}
	first = first[:n]
	if bytes.HasPrefix(first, []byte("hang\x00")) {
		select {}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 1
	}
	rest, err := unix.Dup(0)
	if err != nil || unix.Dup3(int(r.Fd()), 0, 0) != nil {
		return 1
	}
	go func() {
		defer w.Close()
		_, _ = io.Copy(w, io.MultiReader(bytes.NewReader(first), os.NewFile(uintptr(rest), "rest")))
	}()
	return unpack.Serve()
}
