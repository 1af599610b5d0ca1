package persist

import (
	"context"
	"iter"
)

// MachineID names the machine whose memory is kept: its node ID.
type MachineID string

// Kind groups objects: a-z, 0-9 and '-', at most MaxKind bytes, beginning with a letter.
type Kind string

// Key finds an object on its instance: KeyOf its name.
type Key string

// The bounds of an object, in bytes.
const (
	MaxKind = 32
	MaxName = 1024
	MaxBody = 16 << 20
)

// MostKeys is how many keys one listing has at most: more than a node's store can have files.
const MostKeys = 200_000

// Object is a name, of any UTF-8 text of 1 to MaxName bytes, and its content, of at most MaxBody bytes.
type Object struct {
	Kind Kind
	Name string
	Body []byte
}

// Status is what a provider knows of an instance.
type Status struct {
	// InstanceExists is whether the provider has an instance of that name.
	InstanceExists bool `json:"exists" yaml:"exists"`
	// Status is whether the instance is up. Nothing should be asked of one that is down but Initialize.
	Status bool `json:"status,omitempty" yaml:"status,omitempty"`
	// MeanPersistLatency is the mean time that the latest changes took, in seconds, from the call until the instance had
	// carried it out; 0 before the first.
	MeanPersistLatency float64 `json:"mean_persist_latency,omitempty" yaml:"meanPersistLatency,omitempty"`
}

// Provider keeps objects on its instances. It may be used from several goroutines, and returns soon after its context
// ends. Errors have a node.Kind:
//
//   - NotExist: there is no such object;
//   - Invalid: there is no such instance, the object given can't be kept, or the one kept is damaged or isn't the one that was asked for. Wrong bytes are
//     never returned;
//   - Refused: the instance doesn't let us in, or belongs to another machine. One that only doesn't let DeleteObject remove an object stays up;
//   - NoSpace: the instance is full;
//   - Transient: the instance is down or doesn't answer; another try may help.
//
// A change that failed may have happened, unless the error is Invalid or NotExist.
type Provider interface {
	// Initialize brings up the instances that are down, for a machine. Instances that can't be brought up stay down, and
	// are named in the error; the others work. An instance that no machine has used yet becomes this machine's. Calling it
	// again, for the same machine, tries those again that are down by now. One with
	// another machine is Refused.
	Initialize(ctx context.Context, machine MachineID) error
	// Instances are the names of all instances, in order: see InstanceName.
	Instances() []string
	// InstanceStatus never waits. Its zero value is an instance that doesn't exist.
	InstanceStatus(instance string) Status
	// PutObject keeps an object, in place of any of its kind and name, durably when it returns. The whole object replaces the
	// whole old one. With a context of Once it is tried once.
	PutObject(ctx context.Context, instance string, o Object) (Key, error)
	// GetObject returns an object.
	GetObject(ctx context.Context, instance string, kind Kind, key Key) (Object, error)
	// GetAllObjects goes through all objects of a kind, in no order, holding a few at a time. What is Invalid is given with its error
	// and its key as the name, and the next one follows. Any other error is the last thing given.
	GetAllObjects(ctx context.Context, instance string, kind Kind) iter.Seq2[Object, error]
	// Keys lists what there is of a kind, in order, without reading it: the first MostKeys of them if there are more. What others have put there may
	// be given too, also with keys that aren't Valid.
	Keys(ctx context.Context, instance string, kind Kind) ([]Key, error)
	// DeleteObject removes an object. Removing what isn't there is no error.
	DeleteObject(ctx context.Context, instance string, kind Kind, key Key) error
}
