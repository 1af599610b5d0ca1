package node

// The vm module's address on the bus.
const (
	VMModule  = "vmd"
	VMObject  = "manager"
	VMVersion = "0.1.0"

	VMImageObject  = "image"
	VMImageVersion = "0.1.0"
)

// VMDisk is a disk of a VM.
type VMDisk struct {
	// Path is a raw image, which the node owns: see VDisks. Serial is the number that the
	// guest sees, at most 20 letters, digits and dashes.
	Path     string
	Serial   string
	ReadOnly bool
}

// VMTap is the tap device of a VM's network interface: see Tap.
type VMTap struct {
	// Namespace is the path of the network namespace that has the device.
	Namespace string
	Device    string
	// MAC is the guest's.
	MAC string
}

// VMSpec asks for a virtual machine.
type VMSpec struct {
	// ID is the reservation's; User owns the VM.
	ID   string
	User string
	// CPU is in cores, Memory in bytes of the guest, a multiple of 1 MiB.
	CPU    uint64
	Memory uint64
	// Kernel and Initrd are paths on the node; Initrd may be empty. Arguments is the
	// kernel command line, which everybody on the node can read: no secrets.
	Kernel    string
	Initrd    string
	Arguments string
	// Disks are in boot order. None of them is made, grown or removed by the VM.
	Disks []VMDisk
	// Tap is its only network interface; no interface without a Device.
	Tap VMTap
	// Config is the image of its read-only config disk, which comes after Disks; empty
	// for none. It may have secrets: it is kept in memory only, Run needs it each
	// time, also after a reboot.
	Config []byte
	// Hash is the reservation's, AdoptUnlabelled whether a VM without a hash counts as
	// its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// The states of a VM.
const (
	VMRunning = "running"
	// VMWaiting ended by itself, or couldn't be started, and is started after a pause.
	VMWaiting = "waiting"
	// VMStopping is being deleted.
	VMStopping = "stopping"
	// VMBroken has a record that can't be read: it is left alone until it is deleted.
	VMBroken = "broken"
)

// VMInfo describes a VM.
type VMInfo struct {
	ID   string `yaml:"id" protobuf:"1"`
	User string `yaml:"user" protobuf:"2"`
	// Hash is the hash of its reservation (see Claim).
	Hash   string `yaml:"hash" protobuf:"3"`
	State  string `yaml:"state" protobuf:"4"`
	CPU    uint64 `yaml:"cpu" protobuf:"5"`
	Memory uint64 `yaml:"memory" protobuf:"6"`
	// PID is the node's ID of its QEMU, 0 while none runs; Since is the time of its
	// start in Unix nanoseconds.
	PID   uint64 `yaml:"pid" protobuf:"7"`
	Since int64  `yaml:"since" protobuf:"8"`
	// Accelerator is "kvm" or "tcg", empty before its first start.
	Accelerator string `yaml:"accelerator" protobuf:"9"`
	// Restarts counts starts after the first; Ended (Unix nanoseconds, 0 for never) is the
	// time of the last end that nobody asked for, Next (likewise) that of the next start.
	Restarts uint64 `yaml:"restarts" protobuf:"10"`
	Ended    int64  `yaml:"ended" protobuf:"11"`
	Next     int64  `yaml:"next" protobuf:"12"`
	// Cause says why it ended, or why its last start failed; empty when neither happened.
	Cause string `yaml:"cause" protobuf:"13"`
	// Drift says what a running VM has lost, such as its tap device; empty when nothing: Run starts
	// it anew.
	Drift string `yaml:"drift" protobuf:"14"`
}

// VMStats is one reading of a VM's use.
type VMStats struct {
	ID string
	// At is the time of the reading, in Unix nanoseconds.
	At int64
	// CPU is in nanoseconds since the start. Memory is the memory that the VM takes of
	// the node, the emulator's own included, MemoryLimit its limit; bytes.
	CPU         uint64
	Memory      uint64
	MemoryLimit uint64
}

// VMStatus is the state of the module and of its dependencies on the node.
type VMStatus struct {
	// Accelerator is "kvm" or "tcg", empty while it is unknown; Why is the reason for
	// the latter.
	Accelerator string `yaml:"accelerator" protobuf:"1"`
	Why         string `yaml:"why" protobuf:"2"`
	// Emulator is QEMU's version; Error is the reason why there is none.
	Emulator string `yaml:"emulator" protobuf:"3"`
	Error    string `yaml:"error" protobuf:"4"`
	VMs      uint64 `yaml:"vms" protobuf:"5"`
}

// VMs runs virtual machines, and starts those again that end by themselves. Bus:
// vmd.manager@0.1.0.
type VMs interface {
	// Run starts it, or returns the one of that ID: one that runs is left as it is unless it has
	// Drift, one that waits is started now, with this spec. Exist when the one of that ID belongs to
	// another reservation: it stays untouched.
	Run(spec VMSpec) (VMInfo, error)
	// Inspect returns it. NotExist when there is none.
	Inspect(id string) (VMInfo, error)
	// Exists reports whether there is one of that ID.
	Exists(id string) (bool, error)
	// Delete has the guest powered off, ends it after 30 seconds, and removes it; its
	// disks stay. NotExist when there is none.
	Delete(id string) error
	// List returns all that carry croft's label.
	List() ([]VMInfo, error)
	// Stats reads its present use. NotExist when there is none, Busy while it doesn't
	// run.
	Stats(id string) (VMStats, error)
	// Status returns the module's state.
	Status() (VMStatus, error)
}

// VMImage is an image of virtual machines that is whole on the node.
type VMImage struct {
	Name    string
	Version string
	// Digest is that of the artifact's manifest, such as "sha256:…"; empty for a folder of the operator's.
	Digest string
	// Kernel, Initrd and Root are absolute paths of files that everybody on the node may read. Root, a read-only
	// disk that all VMs share, is empty where the image has none.
	Kernel string
	Initrd string
	Root   string
	// Arguments is the kernel command line.
	Arguments string
}

// The states of the image.
const (
	// VMImageNone is that of a node that is given no image.
	VMImageNone = "none"
	// VMImageFetching is that of an image, or a newer version of it, that is being fetched.
	VMImageFetching = "fetching"
	VMImageReady    = "ready"
	// VMImageFailed is that of an image that can't be used, fetched or looked for now: it is tried again.
	VMImageFailed = "failed"
)

// VMImageStatus is the state of the image that Kubernetes VMs boot.
type VMImageStatus struct {
	// Reference is the operator's setting: a folder or an OCI artifact.
	Reference string `yaml:"reference" protobuf:"1"`
	State     string `yaml:"state" protobuf:"2"`
	// Version and Digest are those of the image that VMs boot now, in any state; Version is empty when there is none.
	Version string `yaml:"version" protobuf:"3"`
	Digest  string `yaml:"digest" protobuf:"4"`
	// Done and Total are the bytes of the version that is being fetched; Total is 0 before it is known.
	Done  uint64 `yaml:"done" protobuf:"5"`
	Total uint64 `yaml:"total" protobuf:"6"`
	// Error is the last failure since the last success, Next the time of the next try in Unix nanoseconds.
	Error string `yaml:"error" protobuf:"7"`
	Next  int64  `yaml:"next" protobuf:"8"`
}

// VMImages has the image that Kubernetes VMs boot, and fetches it by itself. Bus: vmd.image@0.1.0.
type VMImages interface {
	// Current returns the image after a check of its files; it never waits for a download. The files of a fetched
	// image don't change, and stay as long as a VM has them and for an hour after this call. NotExist
	// when the node is given no image, Transient while it isn't there yet, Invalid when the operator's folder is wrong.
	Current() (VMImage, error)
	// Status returns the image's state.
	Status() (VMImageStatus, error)
}
