package node

// The container module's address on the bus.
const (
	ContainerModule  = "container"
	ContainerObject  = "container"
	ContainerVersion = "0.1.0"

	ImageObject  = "image"
	ImageVersion = "0.1.0"
)

// OwnUser owns the containers that the node runs for itself, such as zdb's.
// No user has that ID: theirs are longer.
const OwnUser = "croft"

// OwnImage is the URL scheme of croft's own images.
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
	// ID is the reservation's; User owns the container and determines its namespace.
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
	// Layer is the path on the node of the file system for the container's
	// writes beside its volumes. Nothing else uses it.
	Layer string
	// Hostname is its name, DNS the addresses of its name servers.
	Hostname string
	DNS      []string
	// CPU is in cores, Memory in bytes; both at least 1.
	CPU    uint64
	Memory uint64
	// NoCapabilities drops the capabilities that root of a container has beyond a
	// plain user.
	NoCapabilities bool
	// ReadOnly lets it write to its volumes, /dev/shm and nowhere else. NonRoot
	// refuses to run it as root: Invalid where its image would.
	ReadOnly bool
	NonRoot  bool
	// Interactive starts croft's own PID 1, which serves a web terminal at the
	// addresses Terminal, the container's in its network, to requests for these
	// or for one of Names. It is alone when there is nothing else to run.
	Interactive bool
	Terminal    []string
	Names       []string
	// Hash is the reservation's, AdoptUnlabelled whether a container without a hash
	// counts as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// The states of a container.
const (
	// ContainerCreated has not been started yet.
	ContainerCreated = "created"
	ContainerRunning = "running"
	// ContainerWaiting ended by itself and is restarted after a pause.
	ContainerWaiting = "waiting"
	// ContainerBroken lacks one of its parts, see Drift.
	ContainerBroken = "broken"
)

// ContainerInfo describes a container.
type ContainerInfo struct {
	ID   string `yaml:"id" protobuf:"1"`
	User string `yaml:"user" protobuf:"2"`
	// Hash is the hash of its reservation (see Claim), empty without a reservation or
	// when a croft that recorded none made it.
	Hash string `yaml:"hash" protobuf:"3"`
	// Image is the digest of its image.
	Image string `yaml:"image" protobuf:"4"`
	State string `yaml:"state" protobuf:"5"`
	// PID is the node's ID of its first process, 0 while none runs.
	PID uint64 `yaml:"pid" protobuf:"6"`
	// Namespace is the path of its network namespace, which it keeps over its
	// restarts.
	Namespace string `yaml:"namespace" protobuf:"7"`
	// Volumes are the IDs of the volumes that it mounts.
	Volumes []string `yaml:"volumes" protobuf:"8"`
	// Restarts counts starts after the first; ExitCode and Ended (Unix nanoseconds, 0
	// for never) describe the last exit that nobody asked for, Next (likewise) is the
	// time of the next start.
	Restarts uint64 `yaml:"restarts" protobuf:"9"`
	ExitCode uint64 `yaml:"exit_code" protobuf:"10"`
	Ended    int64  `yaml:"ended" protobuf:"11"`
	Next     int64  `yaml:"next" protobuf:"12"`
	// OOM reports that the last exit was an OOM kill, whose memory was short, and its
	// limit; empty when the kernel killed nothing of the container.
	OOM string `yaml:"oom" protobuf:"13"`
	// Cause says why the last start failed, empty when it didn't.
	Cause string `yaml:"cause" protobuf:"14"`
	// LastLog holds at most the last 20 lines, once it has ended by itself.
	LastLog []string `yaml:"last_log" protobuf:"15"`
	// Drift describes its differences from how it was made, empty without any: Create
	// and Start repair them.
	Drift string `yaml:"drift" protobuf:"16"`
}

// ContainerStats is one reading of a container's use.
type ContainerStats struct {
	ID string
	// At is the time of the reading, in Unix nanoseconds.
	At int64
	// CPU is in nanoseconds since the start. Memory is the memory that can't be
	// reclaimed (without inactive page cache), MemoryLimit its limit; bytes.
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
	// At is the time of its arrival, in Unix nanoseconds; Stream is "stdout" or "stderr".
	At     int64
	Stream string
	Text   string
}

// ContainerStatus is the state of the module and of its dependencies on the node.
type ContainerStatus struct {
	// Containerd is the address in use, Version its version, Own whether croft
	// started it; Error is the reason why it doesn't answer, empty when it does.
	Containerd string `yaml:"containerd" protobuf:"1"`
	Version    string `yaml:"version" protobuf:"2"`
	Own        bool   `yaml:"own" protobuf:"3"`
	Error      string `yaml:"error" protobuf:"4"`
	// Runc is the version of the machine's runc.
	Runc string `yaml:"runc" protobuf:"5"`
	// Cgroup is 1 or 2; Missing are limits that this kernel can't enforce.
	Cgroup  uint64   `yaml:"cgroup" protobuf:"6"`
	Missing []string `yaml:"missing" protobuf:"7"`
	// LogCarrier is the process ID of the log carrier, 0 while there is none;
	// LogCarrierMemory is in bytes (RssAnon).
	LogCarrier       uint64 `yaml:"log_carrier" protobuf:"8"`
	LogCarrierMemory uint64 `yaml:"log_carrier_memory" protobuf:"9"`
	Containers       uint64 `yaml:"containers" protobuf:"10"`
}

// Containers runs containers, and restarts those that end by themselves.
// Bus: container.container@0.1.0.
type Containers interface {
	// Create makes a container from the image that Images has for its ID, with its
	// namespaces and mounts, or repairs the one of that ID. It doesn't start it: the
	// container first joins its network by Namespace. Exist when the one of that ID
	// belongs to another reservation: it stays untouched.
	Create(spec ContainerSpec) (ContainerInfo, error)
	// Start starts it, and does nothing when it runs already. Invalid when the image
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
	// Status returns the module's state.
	Status() (ContainerStatus, error)
}

// ImageSpec names an image for a reservation.
type ImageSpec struct {
	// Label is the reservation's ID: it keeps the image that it was first given, also
	// when the tag has moved meanwhile.
	Label string
	// Reference is docker://HOST/NAME:TAG or docker://HOST/NAME@DIGEST, or the
	// path of an OCI layout folder or a tar on the node's allowed paths; or
	// croft://NAME, an image of croft's own, for the user OwnUser only.
	Reference string
	// User is who asked for it; Auth is the opened image_auth
	// ("user:password"), or empty.
	User string
	Auth string
	// Hash is the reservation's, AdoptUnlabelled whether an image without a hash
	// counts as its own: see Claim.
	Hash            string
	AdoptUnlabelled bool
}

// Image is a reservation's image, or the progress of its pull.
type Image struct {
	Label     string `yaml:"label" protobuf:"1"`
	Reference string `yaml:"reference" protobuf:"2"`
	User      string `yaml:"user" protobuf:"3"`
	// Hash is the hash of its reservation (see Claim), empty without a reservation or
	// when a croft that recorded none made it.
	Hash string `yaml:"hash" protobuf:"4"`
	// Digest is that of the manifest for this machine, empty while unknown.
	Digest string `yaml:"digest" protobuf:"5"`
	// Size is its space on the node, in bytes, once it is Ready.
	Size uint64 `yaml:"size" protobuf:"6"`
	// Done and Total tell the progress of a pull in bytes; Total is 0 while unknown.
	Done  uint64 `yaml:"done" protobuf:"7"`
	Total uint64 `yaml:"total" protobuf:"8"`
	// Unpacking is whether it is fully downloaded and being unpacked.
	Unpacking bool `yaml:"unpacking" protobuf:"9"`
	Ready     bool `yaml:"ready" protobuf:"10"`
	// Used is the last time a container needed it, in Unix seconds.
	Used int64 `yaml:"used" protobuf:"11"`
}

// ImageStatus is the space that the node's images take.
type ImageStatus struct {
	// Used and Total are the bytes of the images' file system, Size the part of them
	// that images take.
	Used   uint64 `yaml:"used" protobuf:"1"`
	Total  uint64 `yaml:"total" protobuf:"2"`
	Size   uint64 `yaml:"size" protobuf:"3"`
	Images uint64 `yaml:"images" protobuf:"4"`
	// Removed counts the unused images that were removed since the start.
	Removed uint64 `yaml:"removed" protobuf:"5"`
}

// Images pulls and keeps images. Bus: container.image@0.1.0.
type Images interface {
	// Pull starts or continues to fetch it and returns within a moment; Ready when it is
	// done. The error is the reason of a failure: Invalid and Refused are final, Transient
	// means that the next call tries again; Exist when the label's image belongs to another
	// reservation. Content that is on the node already needs no network.
	Pull(spec ImageSpec) (Image, error)
	// Inspect returns the label's image. NotExist when there is none.
	Inspect(label string) (Image, error)
	// Release tells that the label's reservation has ended: its pull stops, its image
	// may be removed once nothing else uses it, and the log of the container of that ID
	// is removed. NotExist when there is none.
	Release(label string) error
	// List returns the images of all labels.
	List() ([]Image, error)
	// Status returns the space that the images take.
	Status() (ImageStatus, error)
}
