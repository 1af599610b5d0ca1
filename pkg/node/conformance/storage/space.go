package storage

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

func storageLimit(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 64*expect.MiB)
	other := s.create(t, "7-2", 64*expect.MiB)
	written, err := s.Disk.Fill(filepath.Join(f.Path, "data"), 80*expect.MiB)
	if !errors.Is(err, unix.EDQUOT) {
		t.Fatalf("after %d bytes the error is %v, want %v", written, err, unix.EDQUOT)
	}
	if written < 60*expect.MiB || written > 64*expect.MiB {
		t.Errorf("%d bytes could be written to one of %d", written, 64*expect.MiB)
	}
	// The owner must be able to make room again.
	expect.NoError(t, s.Disk.Remove(filepath.Join(f.Path, "data")))
	if _, err := s.Disk.Fill(filepath.Join(f.Path, "data"), 30*expect.MiB); err != nil {
		t.Errorf("after the file was removed writing 30 MiB gives %v", err)
	}
	if _, err := s.Disk.Fill(filepath.Join(other.Path, "data"), 40*expect.MiB); err != nil {
		t.Errorf("the other one can't be written: %v", err)
	}
	// The use may be reported as late as the disk's next commit.
	expect.NoError(t, s.Disk.Sync(other.Path))
	seen, err := s.Client.InspectFilesystem(t.Context(), "7-2")
	expect.NoError(t, err)
	if seen.Used < 40*expect.MiB || seen.Used > 42*expect.MiB {
		t.Errorf("after 40 MiB were written its use is %d bytes", seen.Used)
	}
}

func storageRemoveFull(t *testing.T, s Subject) {
	f := s.create(t, "7-1", 16*expect.MiB)
	if _, err := s.Disk.Fill(filepath.Join(f.Path, "data"), 32*expect.MiB); !errors.Is(err, unix.EDQUOT) {
		t.Fatalf("filling gives %v", err)
	}
	expect.NoError(t, s.Client.ReleaseFilesystem(t.Context(), "7-1"))
	if names := s.names(t); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
}

func storageNoSpace(t *testing.T, s Subject) {
	for _, size := range []uint64{expect.Most, expect.Most - 1, 1 << 63, 8 << 40} {
		_, err := s.Client.CreateFilesystem(t.Context(), s.spec("7-1", size))
		expect.Kind(t, err, node.NoSpace)
		expect.Text(t, err, "7-1", "needs", "free", string(s.Offers))
	}
	const size = 100
	made := 0
	for ; made < 100; made++ {
		_, err := s.Client.CreateFilesystem(t.Context(), s.spec("8-"+strconv.Itoa(made), size*expect.MiB))
		if err != nil {
			expect.Kind(t, err, node.NoSpace)
			expect.Text(t, err, "needs 100 MiB", "free are ")
			break
		}
	}
	status, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	p := status.Pools[0]
	if p.Reserved != uint64(made)*size*expect.MiB || p.Reserved > p.Total || p.Total-p.Reserved > 750*expect.MiB {
		t.Errorf("%d of 100 MiB fit, reserved are %d of %d", made, p.Reserved, p.Total)
	}
	if p.Offered > p.Total || p.Reserved > p.Offered || p.Offered-p.Reserved >= size*expect.MiB {
		t.Errorf("%d of 100 MiB fit, though %d bytes are offered", made, p.Offered)
	}
	if made == 0 {
		t.Fatal("none fits")
	}
	if len(s.names(t)) != made {
		t.Errorf("there are %v, want %d", s.names(t), made)
	}
	expect.NoError(t, s.Client.ReleaseFilesystem(t.Context(), "8-0"))
	s.create(t, "9-1", size*expect.MiB)
}

func storageConcurrent(t *testing.T, s Subject) {
	const callers = 8
	var group sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		group.Go(func() {
			// Half of them create the same one, the others one of their own.
			name := "7-0"
			if i%2 == 1 {
				name = "7-" + strconv.Itoa(i)
			}
			_, errs[i] = s.Client.CreateFilesystem(t.Context(), s.spec(name, 16*expect.MiB))
		})
	}
	group.Wait()
	expect.NoError(t, errors.Join(errs...))
	if names := s.names(t); len(names) != callers/2+1 {
		t.Errorf("there are %v", names)
	}
	for i := range callers {
		group.Go(func() { errs[i] = s.Client.ReleaseFilesystem(t.Context(), "7-0") })
	}
	group.Wait()
	removed := 0
	for _, err := range errs {
		if err == nil {
			removed++
			continue
		}
		expect.Kind(t, err, node.NotExist)
	}
	if removed != 1 {
		t.Errorf("%d callers removed it, want one", removed)
	}
}

func storageMonitor(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	uses, err := s.Client.Monitor(ctx)
	expect.NoError(t, err)
	s.create(t, "7-1", 64*expect.MiB)
	for expect.Receive(t, uses).Reserved != 64*expect.MiB {
	}
	expect.NoError(t, s.Client.ReleaseFilesystem(t.Context(), "7-1"))
	for expect.Receive(t, uses).Reserved != 0 {
	}
	cancel()
	expect.Closed(t, uses)
}
