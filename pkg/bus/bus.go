package bus

import (
	"regexp"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// MaxFrame is the size of a request, reply or event in bytes.
const MaxFrame = transport.MaxFrame

// MaxArguments is how many arguments a call may have.
const MaxArguments = 16

// Options configure clients, servers and connections. The zero value works.
type Options struct {
	Log zerolog.Logger
	// Timeout is the deadline of a call whose context has none; 30 s when 0.
	Timeout time.Duration
	// Workers is how many calls a server runs at once; 4 when 0. With more than
	// one, an implementation is called from several goroutines.
	Workers int
	// Grace is how long a stopping server waits for the calls it has begun; 30 s
	// when 0.
	Grace time.Duration
	// OnResume, when not nil, is called when the stream on channel resumes after
	// down; events of that time are lost. It must not block.
	OnResume func(channel string, down time.Duration)
}

// Validate reports an invalid value.
func (o Options) Validate() error {
	if o.Timeout < 0 {
		return node.Errorf(node.Invalid, "cannot use bus timeout %s: it must be 0 (30s) or more", o.Timeout)
	}
	if o.Workers < 0 || o.Workers > 1024 {
		return node.Errorf(node.Invalid, "cannot use %d bus workers: allowed are 0 (4) to 1024", o.Workers)
	}
	if o.Grace < 0 {
		return node.Errorf(node.Invalid, "cannot use bus grace %s: it must be 0 (30s) or more", o.Grace)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
	}
	return o
}

// Bus carries frames between clients and servers: an *InProcess or a *redis.Bus.
type Bus = transport.Bus

// Object is the name of an object on the bus.
func Object(name, version string) zbus.ObjectID {
	return zbus.ObjectID{Name: name, Version: zbus.Version(version)}
}

// statusObject is served by every server, as by the bare library's.
func statusObject() zbus.ObjectID { return Object("zbus", "1.0") }

func queueName(module string, object zbus.ObjectID) string {
	return module + "." + object.String()
}

func channelName(module string, object zbus.ObjectID, event string) string {
	return queueName(module, object) + "." + event
}

// moduleForm is the form of names of modules, objects and versions: these
// become keys, and the dot between them must stay the only separator.
var moduleForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)
})

func checkModule(name string) error {
	if !moduleForm().MatchString(name) {
		return node.Errorf(node.Invalid, "cannot use %q as a module's name: allowed are letters, digits, - and _", name)
	}
	return nil
}
