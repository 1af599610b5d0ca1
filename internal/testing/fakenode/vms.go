package fakenode

import (
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// NowhereFiles is a folder without files: a VM that needs one of it can't start. All other files exist.
const NowhereFiles = "/nowhere/"

// VMs is the vm module's VMs; no process runs. It implements node.VMs.
type VMs struct {
	calls *Calls
	mu    sync.Mutex
	have  map[string]*virtualMachine
	pids  uint64
}

var _ node.VMs = (*VMs)(nil)

// virtualMachine is a VM with the spec that it was last started with.
type virtualMachine struct {
	spec node.VMSpec
	info node.VMInfo
}

// NewVMs has no VMs.
func NewVMs(calls *Calls) *VMs {
	return &VMs{calls: calls, have: map[string]*virtualMachine{}, pids: 1000}
}

// emulator is the memory in bytes that a VM takes beside its guest's.
const emulator = 192 << 20

// Run implements node.VMs.
func (v *VMs) Run(spec node.VMSpec) (node.VMInfo, error) {
	return answer(v.calls, "VMs.Run", spec.ID, func() (node.VMInfo, error) {
		if err := checkVM(spec); err != nil {
			return node.VMInfo{}, err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		one := v.have[spec.ID]
		if one == nil {
			if err := filesOf(spec); err != nil {
				return node.VMInfo{}, err
			}
			one = &virtualMachine{spec: spec, info: node.VMInfo{ID: spec.ID, User: spec.User, Hash: spec.Hash, CPU: spec.CPU, Memory: spec.Memory}}
			v.have[spec.ID] = one
			v.start(one)
			return one.info, nil
		}
		claim := node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
		if err := claim.Check("run VM "+spec.ID, one.spec.Hash); err != nil {
			return node.VMInfo{}, err
		}
		v.now(one)
		switch {
		case one.info.State == node.VMWaiting || one.info.Drift != "":
			one.spec = spec
			v.start(one)
		case one.info.State == node.VMBroken:
			return node.VMInfo{}, node.Errorf(node.Busy, "cannot run VM %s: %s", spec.ID, one.info.Cause)
		}
		return one.info, nil
	})
}

// start starts a VM. The caller holds mu.
func (v *VMs) start(one *virtualMachine) {
	v.pids++
	if one.info.Since != 0 || one.info.Ended != 0 {
		one.info.Restarts++
	}
	one.info.State, one.info.PID, one.info.Since, one.info.Next, one.info.Accelerator = node.VMRunning, v.pids, time.Now().UnixNano(), 0, "tcg"
	one.info.Drift = ""
}

// now starts a VM whose pause is over. The caller holds mu.
func (v *VMs) now(one *virtualMachine) {
	if one.info.State == node.VMWaiting && time.Now().UnixNano() >= one.info.Next {
		v.start(one)
	}
}

// filesOf returns NotExist when a VM lacks a file.
func filesOf(spec node.VMSpec) error {
	paths := []string{spec.Kernel, spec.Initrd, spec.Tap.Namespace}
	for _, d := range spec.Disks {
		paths = append(paths, d.Path)
	}
	for _, path := range paths {
		if strings.HasPrefix(path, NowhereFiles) {
			return node.Errorf(node.NotExist, "cannot run VM %s: there is no %s", spec.ID, path)
		}
	}
	return nil
}

// The forms of texts in a VM's spec.
var (
	vmID       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	diskSerial = regexp.MustCompile(`^[A-Za-z0-9-]{1,20}$`)
	device     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,15}$`)
	printable  = regexp.MustCompile(`^[ -~]*$`)
)

func checkVMID(what, id string) error {
	if !vmID.MatchString(id) {
		return node.Errorf(node.Invalid, "cannot %s VM %.80q: its ID must be 1 to 64 letters, digits, dashes and underscores, the first a letter or a digit", what, id)
	}
	return nil
}

func checkVM(spec node.VMSpec) error {
	if err := checkVMID("run", spec.ID); err != nil {
		return err
	}
	const mib = 1 << 20
	bad := ""
	switch {
	case spec.User == "" || len(spec.User) > 128:
		bad = "User"
	case spec.CPU == 0 || spec.CPU > 255:
		bad = "CPU"
	case spec.Memory < 16*mib || spec.Memory%mib != 0 || spec.Memory > 1<<46:
		bad = "Memory"
	case !filepath.IsAbs(spec.Kernel):
		bad = "Kernel"
	case spec.Initrd != "" && !filepath.IsAbs(spec.Initrd):
		bad = "Initrd"
	case len(spec.Disks) > 8:
		bad = "the number of Disks"
	case len(spec.Config) > 4*mib:
		bad = "the length of Config"
	case len(spec.Arguments) > 1792 || !printable.MatchString(spec.Arguments):
		bad = "Arguments"
	}
	for _, d := range spec.Disks {
		switch {
		case bad != "":
		case !filepath.IsAbs(d.Path):
			bad = "a disk's Path"
		case !diskSerial.MatchString(d.Serial):
			bad = "a disk's Serial"
		}
	}
	if bad == "" {
		bad = checkVMTap(spec.Tap)
	}
	if bad != "" {
		return node.Errorf(node.Invalid, "cannot run VM %s: %s isn't allowed", spec.ID, bad)
	}
	return node.Claim{Hash: spec.Hash}.Valid("run VM " + spec.ID)
}

func checkVMTap(tap node.VMTap) string {
	if tap == (node.VMTap{}) {
		return ""
	}
	mac, err := net.ParseMAC(tap.MAC)
	switch {
	case !device.MatchString(tap.Device):
		return "Tap.Device"
	case !filepath.IsAbs(tap.Namespace):
		return "Tap.Namespace"
	case err != nil || len(mac) != 6 || mac[0]&1 != 0:
		return "Tap.MAC"
	}
	return ""
}

// Inspect implements node.VMs.
func (v *VMs) Inspect(id string) (node.VMInfo, error) {
	return answer(v.calls, "VMs.Inspect", id, func() (node.VMInfo, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		one, err := v.find("inspect", id)
		if err != nil {
			return node.VMInfo{}, err
		}
		return one.info, nil
	})
}

// find returns a VM as it is now. The caller holds mu.
func (v *VMs) find(what, id string) (*virtualMachine, error) {
	if err := checkVMID(what, id); err != nil {
		return nil, err
	}
	one := v.have[id]
	if one == nil {
		return nil, node.Errorf(node.NotExist, "cannot %s VM %s: there is none", what, id)
	}
	v.now(one)
	return one, nil
}

// Exists implements node.VMs.
func (v *VMs) Exists(id string) (bool, error) {
	return answer(v.calls, "VMs.Exists", id, func() (bool, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.have[id] != nil, checkVMID("find", id)
	})
}

// Delete implements node.VMs.
func (v *VMs) Delete(id string) error {
	return carryOut(v.calls, "VMs.Delete", id, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if err := checkVMID("delete", id); err != nil {
			return err
		}
		return drop(v.have, id, "delete VM")
	})
}

// List implements node.VMs.
func (v *VMs) List() ([]node.VMInfo, error) {
	return answer(v.calls, "VMs.List", "", func() ([]node.VMInfo, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		out := []node.VMInfo{}
		for _, id := range sorted(v.have) {
			v.now(v.have[id])
			out = append(out, v.have[id].info)
		}
		return out, nil
	})
}

// Stats implements node.VMs.
func (v *VMs) Stats(id string) (node.VMStats, error) {
	return answer(v.calls, "VMs.Stats", id, func() (node.VMStats, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		one, err := v.find("measure", id)
		if err != nil {
			return node.VMStats{}, err
		}
		if one.info.State != node.VMRunning {
			return node.VMStats{}, node.Errorf(node.Busy, "cannot measure VM %s: it is %s", id, one.info.State)
		}
		return node.VMStats{ID: id, At: time.Now().UnixNano(), CPU: 1, Memory: one.spec.Memory / 2, MemoryLimit: one.spec.Memory + emulator}, nil
	})
}

// Status implements node.VMs.
func (v *VMs) Status() (node.VMStatus, error) {
	return answer(v.calls, "VMs.Status", "", func() (node.VMStatus, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		return node.VMStatus{Accelerator: "tcg", Why: "a fake has no KVM", Emulator: "8.0.0", VMs: uint64(len(v.have))}, nil
	})
}

// Specs are the specs that the VMs run with.
func (v *VMs) Specs() map[string]node.VMSpec {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := map[string]node.VMSpec{}
	for id, one := range v.have {
		out[id] = one.spec
	}
	return out
}

// Crash ends a VM's process; it is started again after a pause.
func (v *VMs) Crash(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one := v.have[id]; one != nil {
		now := time.Now()
		one.info.State, one.info.PID, one.info.Since, one.info.Cause = node.VMWaiting, 0, 0, "its process was killed"
		one.info.Ended, one.info.Next = now.UnixNano(), now.Add(pause).UnixNano()
	}
}

// SetDrift makes a running VM lose something, until Run starts it anew.
func (v *VMs) SetDrift(id, drift string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one := v.have[id]; one != nil {
		one.info.Drift = drift
	}
}

// Break makes a VM's record unreadable.
func (v *VMs) Break(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one := v.have[id]; one != nil {
		one.info.State, one.info.Cause, one.info.Hash = node.VMBroken, "its record can't be read", ""
	}
}

// Reboot forgets all VMs, as a reboot of the node does.
func (v *VMs) Reboot() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have = map[string]*virtualMachine{}
}

// VMImages is the vm module's VMImages; nothing is fetched. It implements node.VMImages.
type VMImages struct {
	calls *Calls
	mu    sync.Mutex
	// reference is empty for a node that is given no image.
	reference string
	have      node.VMImage
}

var _ node.VMImages = (*VMImages)(nil)

// VMImageReference is the image that a Node's vm module is given.
const VMImageReference = "oci://hub.example/kubernetes:1"

// NewVMImages is given an image that isn't there yet; none when reference is empty.
func NewVMImages(calls *Calls, reference string) *VMImages {
	return &VMImages{calls: calls, reference: reference}
}

// Offer puts an image of that version on the node.
func (v *VMImages) Offer(version string) node.VMImage {
	v.mu.Lock()
	defer v.mu.Unlock()
	folder := "/vm-images/" + version + "/"
	v.have = node.VMImage{
		Name: "kubernetes", Version: version, Digest: "sha256:" + strings.Repeat(version[:1], 64),
		Kernel: folder + "vmlinuz", Initrd: folder + "initrd", Root: folder + "root", Arguments: "quiet",
	}
	return v.have
}

// Remove takes the image away, and the operator's setting too unless it is only missing.
func (v *VMImages) Remove(missing bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have = node.VMImage{}
	if !missing {
		v.reference = ""
	}
}

// Current implements node.VMImages.
func (v *VMImages) Current() (node.VMImage, error) {
	return answer(v.calls, "VMImages.Current", "", func() (node.VMImage, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch {
		case v.reference == "":
			return node.VMImage{}, node.Errorf(node.NotExist, "cannot find an image of virtual machines: the node is given none")
		case v.have.Version == "":
			return node.VMImage{}, node.Errorf(node.Transient, "cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched (0.0 MiB so far)")
		}
		return v.have, nil
	})
}

// Status implements node.VMImages.
func (v *VMImages) Status() (node.VMImageStatus, error) {
	return answer(v.calls, "VMImages.Status", "", func() (node.VMImageStatus, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		out := node.VMImageStatus{Reference: v.reference, State: node.VMImageReady, Version: v.have.Version, Digest: v.have.Digest}
		switch {
		case v.reference == "":
			out.State = node.VMImageNone
		case v.have.Version == "":
			out.State = node.VMImageFetching
		}
		return out, nil
	})
}
