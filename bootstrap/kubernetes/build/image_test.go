package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// A build that fails leaves the image that was there, and nothing of its own, nor of one that was killed.
func TestFailedBuild(t *testing.T) {
	cache, out := t.TempDir(), t.TempDir()
	if err := imagebuild.Publish(stagedImage(t, out, "1"), out, vmimage.Manifest); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{cache, out, filepath.Join(cache, "packages"), filepath.Join(cache, "squashfs")} {
		write(t, filepath.Join(dir, imagebuild.Temporary+"1", "x"), "")
	}
	c := config{source: ".", out: out, parts: t.TempDir(), cache: cache, version: "dev"}
	c.run = func(context.Context, string, string, ...string) ([]byte, error) {
		return nil, errors.New("cannot reach the archive")
	}
	if err := build(t.Context(), c, imagebuild.NewProgress(io.Discard, "test")); err == nil || !strings.Contains(err.Error(), "cannot reach the archive") {
		t.Errorf("%v", err)
	}
	if i, err := vmimage.Open(out).Read(t.Context()); err != nil || i.Version != "1" {
		t.Errorf("%+v, %v", i, err)
	}
	for _, dir := range []string{cache, out, filepath.Join(cache, "packages"), filepath.Join(cache, "squashfs")} {
		if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) > 0 {
			t.Errorf("there is %v, %v", names, err)
		}
	}
}
