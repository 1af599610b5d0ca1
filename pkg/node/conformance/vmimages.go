package conformance

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// VMImagesClient is the interface of the stub of node.VMImages.
type VMImagesClient interface {
	Current(ctx context.Context) (node.VMImage, error)
	Status(ctx context.Context) (node.VMImageStatus, error)
}

// VMImagesSubject is a vm module that is given an image that isn't there yet.
type VMImagesSubject struct {
	Client VMImagesClient
	// None is a module that is given no image.
	None VMImagesClient
	// Offer makes an image of that version available, where the module looks for it; it fetches that by itself.
	Offer func(t *testing.T, version string)
	// Unplug ends the contact with the place where the module looks.
	Unplug func(t *testing.T)
	// Fetched is whether the image is fetched: else it is a folder, which Offer changes in place.
	Fetched bool
	// Files is whether the image's files really exist.
	Files bool
	// Restart ends the module, starts it again on the same files, and returns the new client.
	Restart func(t *testing.T) VMImagesClient
}

// VMImagesSuite tests an implementation of node.VMImages. Each part gets its own subject from open.
func VMImagesSuite(t *testing.T, open func(t *testing.T) VMImagesSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s VMImagesSubject)
	}{
		{"no image", vmImagesNone},
		{"not there yet", vmImagesLater},
		{"twice and after a restart", vmImagesTwice},
		{"a newer version", vmImagesNewer},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, open(t))
		})
	}
}

// becomes waits until the image has a version.
func (s VMImagesSubject) becomes(t *testing.T, version string) node.VMImage {
	t.Helper()
	for deadline := time.Now().Add(slow); ; {
		i, err := s.Client.Current(t.Context())
		if err == nil && i.Version == version {
			return i
		}
		if err != nil {
			expect.Kind(t, err, node.Transient)
		}
		if time.Now().After(deadline) {
			status, _ := s.Client.Status(t.Context())
			t.Fatalf("after %s the image is %+v, %v, its status %+v; want version %s", slow, i, err, status, version)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// ready fails unless the status shows a version as ready.
func (s VMImagesSubject) ready(t *testing.T, i node.VMImage) {
	t.Helper()
	for deadline := time.Now().Add(slow); ; {
		status, err := s.Client.Status(t.Context())
		expect.NoError(t, err)
		if status.State == node.VMImageReady && status.Version == i.Version && status.Digest == i.Digest && status.Error == "" && status.Reference != "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status is %+v, want version %s ready", status, i.Version)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s VMImagesSubject) whole(t *testing.T, i node.VMImage) {
	t.Helper()
	if i.Name == "" || i.Kernel == "" || i.Initrd == "" || (i.Digest != "") != s.Fetched {
		t.Errorf("the image is %+v", i)
	}
	if !s.Files {
		return
	}
	for _, path := range []string{i.Kernel, i.Initrd, i.Root} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		expect.NoError(t, err)
		if info.Mode().Perm()&0o004 == 0 {
			t.Errorf("%s has mode %s: not everybody may read it", path, info.Mode())
		}
	}
}

func vmImagesNone(t *testing.T, s VMImagesSubject) {
	for range 2 {
		_, err := s.None.Current(t.Context())
		expect.Kind(t, err, node.NotExist)
		status, err := s.None.Status(t.Context())
		expect.NoError(t, err)
		if status != (node.VMImageStatus{State: node.VMImageNone}) {
			t.Errorf("without an image the status is %+v", status)
		}
	}
}

func vmImagesLater(t *testing.T, s VMImagesSubject) {
	for range 2 {
		_, err := s.Client.Current(t.Context())
		expect.Kind(t, err, node.Transient)
		status, err := s.Client.Status(t.Context())
		expect.NoError(t, err)
		if status.State != node.VMImageFetching && status.State != node.VMImageFailed || status.Version != "" || status.Digest != "" || status.Reference == "" {
			t.Errorf("before the image is there the status is %+v", status)
		}
		s.Client = s.Restart(t)
	}
	s.Offer(t, "1")
	i := s.becomes(t, "1")
	s.whole(t, i)
	s.ready(t, i)
}

func vmImagesTwice(t *testing.T, s VMImagesSubject) {
	s.Offer(t, "1")
	i := s.becomes(t, "1")
	for range 2 {
		again, err := s.Client.Current(t.Context())
		expect.NoError(t, err)
		if again != i {
			t.Errorf("it is %+v, was %+v", again, i)
		}
		s.whole(t, again)
		// What is there can be used without the place that it comes from.
		s.Unplug(t)
		s.Client = s.Restart(t)
	}
	again, err := s.Client.Current(t.Context())
	expect.NoError(t, err)
	if again != i {
		t.Errorf("after a restart it is %+v, was %+v", again, i)
	}
}

func vmImagesNewer(t *testing.T, s VMImagesSubject) {
	s.Offer(t, "1")
	first := s.becomes(t, "1")
	s.Offer(t, "2")
	second := s.becomes(t, "2")
	s.whole(t, second)
	s.ready(t, second)
	if !s.Fetched {
		return
	}
	if first.Digest == second.Digest || first.Kernel == second.Kernel {
		t.Errorf("version 1 is %+v, version 2 is %+v", first, second)
	}
	// The earlier one may be about to be booted.
	s.whole(t, first)
	s.Client = s.Restart(t)
	s.whole(t, first)
	if again := s.becomes(t, "2"); again != second {
		t.Errorf("after a restart it is %+v, was %+v", again, second)
	}
}
