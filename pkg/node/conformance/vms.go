package conformance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// VMsClient is the interface of the stub of node.VMs.
type VMsClient interface {
	Run(ctx context.Context, spec node.VMSpec) (node.VMInfo, error)
	Inspect(ctx context.Context, id string) (node.VMInfo, error)
	Exists(ctx context.Context, id string) (bool, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.VMInfo, error)
	Stats(ctx context.Context, id string) (node.VMStats, error)
	Status(ctx context.Context) (node.VMStatus, error)
}

// VMsSubject is a new vm module, without VMs.
type VMsSubject struct {
	Client VMsClient
	// Spec is the spec of a VM of that ID that can run: with a kernel, an initrd, a disk and a config disk.
	Spec func(t *testing.T, id string) node.VMSpec
	// Crash ends a VM's process, as the kernel does when it is out of memory.
	Crash func(t *testing.T, vm node.VMInfo)
	// Restart ends the module, whose VMs run on, starts it again on the same files, and returns the new client.
	Restart func(t *testing.T) VMsClient
}

// VMsSuite tests an implementation of node.VMs. Each part gets its own subject from open.
func VMsSuite(t *testing.T, open func(t *testing.T) VMsSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s VMsSubject)
	}{
		{"run and delete", vmsLife},
		{"another hash", vmsAnotherHash},
		{"unlabelled", vmsUnlabelled},
		{"remove what isn't there", vmsRemoveNothing},
		{"crash", vmsCrash},
		{"bad specs", vmsBadSpecs},
		{"can't start", vmsCannotStart},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, open(t))
		})
	}
}

// run runs a VM that must be accepted.
func (s VMsSubject) run(t *testing.T, spec node.VMSpec) node.VMInfo {
	t.Helper()
	info, err := s.Client.Run(t.Context(), spec)
	expect.NoError(t, err)
	return info
}

// only fails unless the module has that VM alone, or none.
func (s VMsSubject) only(t *testing.T, want ...node.VMInfo) {
	t.Helper()
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if !slices.Equal(list, want) {
		t.Errorf("the VMs are %+v, want %+v", list, want)
	}
	for _, vm := range want {
		got, err := s.Client.Inspect(t.Context(), vm.ID)
		expect.NoError(t, err)
		if got != vm {
			t.Errorf("it is %+v, want %+v", got, vm)
		}
		if there, err := s.Client.Exists(t.Context(), vm.ID); err != nil || !there {
			t.Errorf("VM %s exists: %t, %v", vm.ID, there, err)
		}
	}
	status, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	if status.VMs != uint64(len(want)) {
		t.Errorf("the status is %+v, want %d VMs", status, len(want))
	}
}

func vmsLife(t *testing.T, s VMsSubject) {
	s.only(t)
	spec := s.Spec(t, "8-1")
	spec.Hash = expect.OneHash
	before := time.Now()
	vm := s.run(t, spec)
	want := node.VMInfo{
		ID: "8-1", User: spec.User, Hash: expect.OneHash, State: node.VMRunning, CPU: spec.CPU, Memory: spec.Memory,
		PID: vm.PID, Since: vm.Since, Accelerator: vm.Accelerator,
	}
	if vm != want || vm.PID == 0 || vm.Since < before.UnixNano() || vm.Since > time.Now().UnixNano() || vm.Accelerator != "kvm" && vm.Accelerator != "tcg" {
		t.Errorf("made %+v", vm)
	}
	if again := s.run(t, spec); again != vm {
		t.Errorf("run twice: %+v, then %+v", vm, again)
	}
	s.only(t, vm)
	stats, err := s.Client.Stats(t.Context(), "8-1")
	expect.NoError(t, err)
	if stats.ID != "8-1" || stats.At == 0 || stats.MemoryLimit <= spec.Memory || stats.Memory > stats.MemoryLimit {
		t.Errorf("it uses %+v", stats)
	}
	s.Client = s.Restart(t)
	s.only(t, vm)
	if again := s.run(t, spec); again != vm {
		t.Errorf("run after a restart: %+v, was %+v", again, vm)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "8-1"))
	s.only(t)
	s.Client = s.Restart(t)
	s.only(t)
	next := s.run(t, spec)
	if next.Restarts != 0 || next.Since <= vm.Since || next.State != node.VMRunning {
		t.Errorf("made anew: %+v", next)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "8-1"))
}

func vmsAnotherHash(t *testing.T, s VMsSubject) {
	spec := s.Spec(t, "8-1")
	spec.Hash = expect.OneHash
	vm := s.run(t, spec)
	theirs := spec
	for range 2 { // the second time after a restart
		for _, hash := range []string{expect.AnotherHash, ""} {
			for _, adopt := range []bool{false, true} {
				theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
				_, err := s.Client.Run(t.Context(), theirs)
				expect.Kind(t, err, node.Exist)
				expect.Text(t, err, "8-1", "isn't this reservation's")
			}
		}
		s.only(t, vm)
		s.Client = s.Restart(t)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "8-1"))
}

func vmsUnlabelled(t *testing.T, s VMsSubject) {
	spec := s.Spec(t, "8-1")
	spec.Hash = ""
	vm := s.run(t, spec)
	spec.Hash = expect.OneHash
	_, err := s.Client.Run(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
	s.only(t, vm)
	expect.NoError(t, s.Client.Delete(t.Context(), "8-1"))
}

func vmsRemoveNothing(t *testing.T, s VMsSubject) {
	for range 2 {
		expect.Kind(t, s.Client.Delete(t.Context(), "8-1"), node.NotExist)
		_, err := s.Client.Inspect(t.Context(), "8-1")
		expect.Kind(t, err, node.NotExist)
		_, err = s.Client.Stats(t.Context(), "8-1")
		expect.Kind(t, err, node.NotExist)
		if there, err := s.Client.Exists(t.Context(), "8-1"); err != nil || there {
			t.Errorf("it exists: %t, %v", there, err)
		}
		s.only(t)
		s.Client = s.Restart(t)
	}
	for _, id := range expect.BadNames() {
		expect.Kind(t, s.Client.Delete(t.Context(), id), node.Invalid)
		_, err := s.Client.Inspect(t.Context(), id)
		expect.Kind(t, err, node.Invalid)
	}
}

func vmsCrash(t *testing.T, s VMsSubject) {
	spec := s.Spec(t, "8-1")
	spec.Hash = expect.OneHash
	vm := s.run(t, spec)
	s.Crash(t, vm)
	deadline := time.Now().Add(slow)
	for {
		now, err := s.Client.Inspect(t.Context(), "8-1")
		expect.NoError(t, err)
		if now.State == node.VMWaiting && (now.PID != 0 || now.Cause == "") {
			t.Fatalf("it waits for its next start: %+v", now)
		}
		if now.Restarts == 1 && now.State == node.VMRunning {
			if now.PID == vm.PID || now.Ended == 0 || now.Cause == "" || now.Since < now.Ended || now.Hash != vm.Hash {
				t.Errorf("it was started again as %+v, was %+v", now, vm)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s after a crash it is %+v", slow, now)
		}
		<-time.After(20 * time.Millisecond)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "8-1"))
	s.only(t)
}

func vmsBadSpecs(t *testing.T, s VMsSubject) {
	for _, id := range expect.BadNames() {
		spec := s.Spec(t, "8-1")
		spec.ID = id
		_, err := s.Client.Run(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
	}
	for what, change := range map[string]func(spec *node.VMSpec){
		"User":      func(spec *node.VMSpec) { spec.User = "" },
		"CPU":       func(spec *node.VMSpec) { spec.CPU = 0 },
		"Memory":    func(spec *node.VMSpec) { spec.Memory++ },
		"Kernel":    func(spec *node.VMSpec) { spec.Kernel = "vmlinuz" },
		"Initrd":    func(spec *node.VMSpec) { spec.Initrd = "initrd" },
		"Arguments": func(spec *node.VMSpec) { spec.Arguments = "two\nlines" },
		"Path":      func(spec *node.VMSpec) { spec.Disks[0].Path = "disk" },
		"Serial":    func(spec *node.VMSpec) { spec.Disks[0].Serial = "a,b" },
		"Disks":     func(spec *node.VMSpec) { spec.Disks = make([]node.VMDisk, 9) },
		"Device": func(spec *node.VMSpec) {
			spec.Tap = node.VMTap{Device: "a/b", Namespace: "/x", MAC: "02:00:00:00:00:01"}
		},
		"Namespace": func(spec *node.VMSpec) {
			spec.Tap = node.VMTap{Device: "tap0", Namespace: "x", MAC: "02:00:00:00:00:01"}
		},
		"MAC": func(spec *node.VMSpec) {
			spec.Tap = node.VMTap{Device: "tap0", Namespace: "/x", MAC: "01:00:00:00:00:01"}
		},
	} {
		spec := s.Spec(t, "8-1")
		change(&spec)
		_, err := s.Client.Run(t.Context(), spec)
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, what)
	}
	spec := s.Spec(t, "8-1")
	spec.Hash = "x"
	_, err := s.Client.Run(t.Context(), spec)
	expect.Kind(t, err, node.Invalid)
	s.only(t)
}

// vmsCannotStart: what can't be started for the first time leaves nothing.
func vmsCannotStart(t *testing.T, s VMsSubject) {
	for _, change := range []func(spec *node.VMSpec){
		func(spec *node.VMSpec) { spec.Kernel = "/nowhere/vmlinuz" },
		func(spec *node.VMSpec) { spec.Initrd = "/nowhere/initrd" },
		func(spec *node.VMSpec) { spec.Disks[0].Path = "/nowhere/disk" },
		func(spec *node.VMSpec) {
			spec.Tap = node.VMTap{Device: "tap-none", Namespace: "/nowhere/ns", MAC: "02:00:00:00:00:01"}
		},
	} {
		spec := s.Spec(t, "8-1")
		change(&spec)
		_, err := s.Client.Run(t.Context(), spec)
		expect.Kind(t, err, node.NotExist)
		s.only(t)
	}
}
