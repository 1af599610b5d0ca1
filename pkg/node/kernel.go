package node

// The address on the bus of what a module lacks of the machine's kernel, in each module that uses features of it which a
// kernel may be without: container, network, storage and vmd.
const (
	KernelObject  = "kernel"
	KernelVersion = "0.1.0"
)

// What a lacking feature means.
const (
	// KernelMissing: something doesn't work without it.
	KernelMissing = "missing"
	// KernelDegraded: all works without it, in another way, such as a slower one.
	KernelDegraded = "degraded"
)

// KernelLack is a feature that a module doesn't find in the machine's kernel, or beside it.
type KernelLack struct {
	Feature string `json:"feature" yaml:"feature" protobuf:"1"`
	// State is KernelMissing or KernelDegraded.
	State string `json:"state" yaml:"state" protobuf:"2"`
	// Why is what was seen when it was tried, Effect what is so because of it.
	Why    string `json:"why" yaml:"why" protobuf:"3"`
	Effect string `json:"effect" yaml:"effect" protobuf:"4"`
}

// KernelState is what a module lacks.
type KernelState struct {
	// Tried is whether all features were tried since the module was opened.
	Tried bool         `json:"tried" yaml:"tried" protobuf:"1"`
	Lacks []KernelLack `json:"lacks" yaml:"lacks" protobuf:"2"`
}

// Kernel tells what a module lacks of the kernel, also when it isn't opened because of that. Bus: kernel@0.1.0 of the module.
type Kernel interface {
	// Lacks waits for nothing: features are tried beside it when the module is opened, and those that it lacks again every few minutes.
	Lacks() (KernelState, error)
}
