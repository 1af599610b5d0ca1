package node

// Where the container module is found on the bus.
const (
	ContainerModule  = "container"
	ContainerObject  = "container"
	ContainerVersion = "0.1.0"

	ImageObject  = "image"
	ImageVersion = "0.1.0"
)

// OwnUser is whose containers are that the node runs for itself, such as zdb's.
// No user has that ID: theirs are longer.
const OwnUser = "croft"

// OwnImage is the scheme of images of croft's own.
const OwnImage = "croft://"

// Env is a set of environment variables.
type Env map[string]string

// MountSpec binds a volume of the node into a container.
type MountSpec struct {
	// Volume is the ID of the volume's reservation, Source its path on the
	// node, Target the path in the container: an absolute one, which is
	// resolved inside the container's root, whatever links lie on the way.
	Volume   string
	Source   string
	Target   string
	ReadOnly bool
}

// ContainerSpec asks for a container.
type ContainerSpec struct {
	// ID is the reservation's; User owns it and picks its namespace.
	ID   string
	User string
	// Entrypoint replaces the image's entry point and command when not empty;
	// Env goes over the image's.
	Entrypoint []string
	Env        Env
	// Secrets are further variables, which are kept in memory only: Create needs
	// them each time, also after a reboot.
	Secrets Env
	Mounts  []MountSpec
	// Layer is the path on the node of the file system that holds what the
	// container writes beside its volumes. Nothing else uses it.
	Layer string
	// Hostname is its name, DNS the addresses of its name servers.
	Hostname string
	DNS      []string
	// CPU is in cores, Memory in bytes; both at least 1.
	CPU    uint64
	Memory uint64
	// NoCapabilities takes from its root user what root of a container may do
	// beyond a plain user.
	NoCapabilities bool
	// ReadOnly lets it write to its volumes, /dev/shm and nowhere else. NonRoot
	// refuses to run it as root: Invalid where its image would.
	ReadOnly bool
	NonRoot  bool
	// Interactive starts croft's own PID 1, which serves a web terminal at
	// Terminal, the container's addresses in its network, to who asks for these
	// or for one of Names. It is alone when there is nothing else to run.
	Interactive bool
	Terminal    []string
	Names       []string
	// Hash is the reservation's, AdoptUnlabelled whether one that was made
	// without a hash is its too: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// The states of a container.
const (
	// ContainerCreated has not been started yet.
	ContainerCreated = "created"
	ContainerRunning = "running"
	// ContainerWaiting has ended by itself and is started again after a pause.
	ContainerWaiting = "waiting"
	// ContainerBroken lacks something that it was made of, see Drift.
	ContainerBroken = "broken"
)

// ContainerInfo is what is known of a container.
type ContainerInfo struct {
	ID   string
	User string
	// Hash is that of the reservation that it belongs to (see Claim), empty when
	// it belongs to none or was made by a croft that wrote none.
	Hash string
	// Image is the digest of its image.
	Image string
	State string
	// PID is that of its first process on the node, 0 while none runs.
	PID uint64
	// Namespace is the path of its network namespace, which it keeps over its
	// restarts.
	Namespace string
	// Volumes are the IDs of the volumes that it mounts.
	Volumes []string
	// Restarts counts starts after the first; ExitCode and Ended (Unix
	// nanoseconds, 0 for never) are of the last exit that nobody asked for,
	// Next (likewise) when it is started again.
	Restarts uint64
	ExitCode uint64
	Ended    int64
	Next     int64
	// OOM says that the last exit came because memory was short, whose, and what
	// the limit is; empty when the kernel killed nothing of the container.
	OOM string
	// Cause says why the last start failed, empty when it didn't.
	Cause string
	// LastLog holds at most the last 20 lines, once it has ended by itself.
	LastLog []string
	// Drift says what of it isn't as it was made, empty when all is: Create
	// and Start make it right.
	Drift string
}

// ContainerStats is one reading of a container's use.
type ContainerStats struct {
	ID string
	// At is when it was read, in Unix nanoseconds.
	At int64
	// CPU is in nanoseconds since the start. Memory is what can't be given back
	// (without inactive page cache), MemoryLimit its most; bytes.
	CPU         uint64
	Memory      uint64
	MemoryLimit uint64
	PIDs        uint64
	PIDsLimit   uint64
	// BlockRead and BlockWritten are bytes of disk since the start, as far as
	// the kernel counts them; Received and Sent bytes of its network interfaces.
	BlockRead    uint64
	BlockWritten uint64
	Received     uint64
	Sent         uint64
}

// LogLine is one line of a container's output.
type LogLine struct {
	// At is when it came, in Unix nanoseconds; Stream is "stdout" or "stderr".
	At     int64
	Stream string
	Text   string
}

// ContainerStatus is how the module and what it needs of the node is.
type ContainerStatus struct {
	// Containerd is the address in use, Version its version, Own whether croft
	// started it; Error says why it doesn't answer, empty when it does.
	Containerd string
	Version    string
	Own        bool
	Error      string
	// Runc is the version of the machine's runc.
	Runc string
	// Cgroup is 1 or 2; Missing are limits that this kernel can't hold.
	Cgroup  uint64
	Missing []string
	// LogCarrier is the process ID of the log carrier, 0 while there is none;
	// LogCarrierMemory is in bytes (RssAnon).
	LogCarrier       uint64
	LogCarrierMemory uint64
	Containers       uint64
}

// Containers runs containers, and starts those again that end by themselves.
// Bus: container.container@0.1.0.
type Containers interface {
	// Create makes a container of the image that Images has for its ID, with
	// its namespaces and mounts, or makes the one of that ID right. It doesn't
	// start it: before that it joins its network by Namespace. Exist when the one
	// of that ID is another's: then it isn't touched.
	Create(spec ContainerSpec) (ContainerInfo, error)
	// Start starts it, and nothing when it runs already. Invalid when the image
	// can't be started, with the cause. NotExist when there is none.
	Start(id string) (ContainerInfo, error)
	// Inspect returns it. NotExist when there is none.
	Inspect(id string) (ContainerInfo, error)
	// Delete stops it with its image's signal, kills it after 10 seconds, and
	// removes it with its mounts and namespaces; its layer's file system stays, and
	// its log until Images releases its ID. NotExist when there is none.
	Delete(id string) error
	// List returns all that carry croft's label, without LastLog.
	List() ([]ContainerInfo, error)
	// Logs returns at most the last lines lines of output, at most 10,000.
	Logs(id string, lines uint64) ([]LogLine, error)
	// Stats reads its present use. NotExist when there is none, Busy while it
	// doesn't run.
	Stats(id string) (ContainerStats, error)
	// Status is how the module is.
	Status() (ContainerStatus, error)
}

// ImageSpec names an image for a reservation.
type ImageSpec struct {
	// Label is the reservation's ID: what it was given once it keeps, also when
	// the tag has moved meanwhile.
	Label string
	// Reference is docker://HOST/NAME:TAG or docker://HOST/NAME@DIGEST, or the
	// path of an OCI layout folder or a tar on the node's allowed paths; or
	// croft://NAME, an image of croft's own, for the user OwnUser only.
	Reference string
	// User is who asked for it; Auth is the opened image_auth
	// ("user:password"), or empty.
	User string
	Auth string
	// Hash is the reservation's, AdoptUnlabelled whether one that was made
	// without a hash is its too: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// Image is what a reservation's image is, or how far its pull has come.
type Image struct {
	Label     string
	Reference string
	User      string
	// Hash is that of the reservation that it belongs to (see Claim), empty when
	// it belongs to none or was made by a croft that wrote none.
	Hash string
	// Digest is that of the manifest for this machine, empty while unknown.
	Digest string
	// Size is what it takes on the node, in bytes, once it is Ready.
	Size uint64
	// Done and Total tell the progress of a pull in bytes; Total is 0 while unknown.
	Done  uint64
	Total uint64
	// Unpacking is whether all of it is here and it is being unpacked.
	Unpacking bool
	Ready     bool
	// Used is when a container last needed it, in Unix seconds.
	Used int64
}

// ImageStatus is how much the node's images take.
type ImageStatus struct {
	// Used and Total are the bytes of the file system that images lie on, Size
	// of them what images take.
	Used   uint64
	Total  uint64
	Size   uint64
	Images uint64
	// Removed counts since the start what was removed because nothing used it.
	Removed uint64
}

// Images pulls and keeps images. Bus: container.image@0.1.0.
type Images interface {
	// Pull starts or continues to fetch it and returns within a moment; Ready
	// when it is done. The error is why it has failed: Invalid and Refused are final,
	// Transient means that the next call tries again; Exist when the label's image
	// is another's. What is on the node already needs no network.
	Pull(spec ImageSpec) (Image, error)
	// Inspect returns that of a label. NotExist when there is none.
	Inspect(label string) (Image, error)
	// Release says that the label's reservation is over: its pull ends, its
	// image may be removed once nothing else uses it, and the log of a container
	// that was of that ID goes. NotExist when there is none.
	Release(label string) error
	// List returns those of all labels.
	List() ([]Image, error)
	// Status is how much the images take.
	Status() (ImageStatus, error)
}
