package node

import "context"

// Where the container module is found on the bus.
const (
	ContainerModule  = "container"
	ContainerObject  = "container"
	ContainerVersion = "0.1.0"

	ImageObject  = "image"
	ImageVersion = "0.1.0"
)

// Env is a set of environment variables.
type Env map[string]string

// MountSpec binds a path of the node into a container.
type MountSpec struct {
	// Source is the path on the node, Target the one in the container.
	Source   string
	Target   string
	ReadOnly bool
}

// ContainerSpec asks for a container.
type ContainerSpec struct {
	// ID is the reservation's; User owns it and picks its namespace.
	ID   string
	User string
	// Image is the digest or name of an image that is on the node.
	Image string
	// Entrypoint replaces the image's when not empty.
	Entrypoint []string
	Env        Env
	Mounts     []MountSpec
	// Network is the ID of the network resource to join; empty for none.
	Network string
	// IPs are the addresses asked for in Network.
	IPs       []string
	PublicIP6 bool
	// CPU is in cores, Memory in bytes; both at least 1.
	CPU         uint64
	Memory      uint64
	Interactive bool
	// Storage is the size of the writable layer in bytes.
	Storage uint64
}

// ContainerInfo is what is known of a container.
type ContainerInfo struct {
	ID    string
	User  string
	Image string
	State string
	PID   uint64
	IPv4  string
	IPv6  string
	// Restarts counts starts after the first, ExitCode is of the last exit.
	Restarts uint64
	ExitCode uint64
	// LastLog holds at most the last 20 lines.
	LastLog []string
}

// ContainerStats is one reading of a container's use.
type ContainerStats struct {
	ID string
	// CPU is in nanoseconds since the start, Memory in bytes.
	CPU    uint64
	Memory uint64
	PIDs   uint64
}

// ContainerEvent says that a container exited, was restarted or is gone.
type ContainerEvent struct {
	ID       string
	State    string
	ExitCode uint64
}

// Containers runs containers. Bus: container.container@0.1.0.
type Containers interface {
	// Run creates and starts it, or returns the one of that ID.
	Run(spec ContainerSpec) (ContainerInfo, error)
	// Inspect returns it. NotExist when there is none.
	Inspect(id string) (ContainerInfo, error)
	// Delete stops and removes it with its writable layer. NotExist when there is none.
	Delete(id string) error
	// List returns all that carry croft's label.
	List() ([]ContainerInfo, error)
	// Logs returns the last lines lines of output.
	Logs(id string, lines uint64) ([]string, error)
	// Stats reads its present use.
	Stats(id string) (ContainerStats, error)
	// Events streams what happens to containers.
	Events(ctx context.Context) <-chan ContainerEvent
}

// ImageSpec names an image to pull.
type ImageSpec struct {
	// Reference is an OCI reference, a layout folder or a tar on an allowed path.
	Reference string
	// User is who asked for it; Auth is the opened image_auth, or empty.
	User string
	Auth string
}

// Image is an image on the node.
type Image struct {
	Reference string
	Digest    string
	Size      uint64
	// Done and Total tell the progress of a pull in bytes.
	Done  uint64
	Total uint64
	Ready bool
}

// Images pulls and keeps images. Bus: container.image@0.1.0.
type Images interface {
	// Pull starts or continues a pull and returns at once; Ready when it is done.
	Pull(spec ImageSpec) (Image, error)
	// Inspect returns it. NotExist when it isn't on the node nor coming.
	Inspect(reference string) (Image, error)
	// Remove removes it. Busy when a container uses it.
	Remove(reference string) error
	// List returns all images.
	List() ([]Image, error)
}
