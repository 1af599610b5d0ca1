package userapi

import (
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/limit"
)

// Limits of users and strangers at the door. A stranger is a connection on which no signed request of a
// user with workloads here has come yet: keys are free, so nothing else distinguishes users. Strangers'
// places are counted apart from owners'.
var (
	strangerPlaces = limit.Limit{Name: "door-strangers", Per: "source", Each: 32, Total: 256}
	tunnelPlaces   = limit.Limit{Name: "door-tunnel-strangers", Total: 64}
	ownerPlaces    = limit.Limit{Name: "door-owners", Per: "user", Each: 32, Total: 512}
	ownerSources   = limit.Limit{Name: "door-owner-sources", Per: "source", Each: 128}
	ownerStreams   = limit.Limit{Name: "door-streams", Per: "user", Each: 16, Total: 512}
)

// Limits of the door's process towards the agent and the node. Links and pipes exceed the places,
// because both end a moment after their connection.
var (
	linkPlaces     = limit.Limit{Name: "door-links", Total: 1024}
	pipePlaces     = limit.Limit{Name: "door-pipes", Total: 704}
	processWords   = limit.Limit{Name: "door-messages", Per: "second", Each: 4096}
	processFiles   = limit.Limit{Name: "door-files", Per: "process", Each: 4096}
	processMemory  = limit.Limit{Name: "door-memory", Per: "process", Each: 512 << 20, Unit: limit.Bytes}
	bindingsOfUser = limit.Limit{Name: "door-bindings", Per: "user", Each: 2048, Total: 65536}
)

// Limits bound the users' share of the node.
type Limits struct {
	// Strangers are connections not yet known as a user's; TunnelStrangers those through the tunnel,
	// whose source only the explorer knows.
	Strangers, TunnelStrangers limit.Limit
	// Owners and OwnerSources are connections of users who have workloads here.
	Owners, OwnerSources limit.Limit
	// Streams are followed logs, watched statistics and running commands.
	Streams limit.Limit
	// Greeting is how long a connection may stay a stranger, from its first byte on.
	Greeting time.Duration
	// Header, Body and Idle are how long a request's head (or a handshake), its body
	// and the next request may take to come.
	Header time.Duration
	Body   time.Duration
	Idle   time.Duration
	// Stuck is how long a reader may accept no data of a stream.
	Stuck time.Duration
	// Watch is the interval of watched statistics.
	Watch time.Duration
	// Hung is how long the door's process may take to answer a heartbeat.
	Hung time.Duration
}

func (l Limits) orDefault() Limits {
	for _, n := range []struct {
		field *limit.Limit
		value limit.Limit
	}{
		{&l.Strangers, strangerPlaces}, {&l.TunnelStrangers, tunnelPlaces}, {&l.Owners, ownerPlaces},
		{&l.OwnerSources, ownerSources}, {&l.Streams, ownerStreams},
	} {
		if n.field.Name == "" {
			*n.field = n.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.Greeting, 10 * time.Second}, {&l.Header, 10 * time.Second}, {&l.Body, 20 * time.Second}, {&l.Idle, time.Minute},
		{&l.Stuck, 10 * time.Minute}, {&l.Watch, 2 * time.Second}, {&l.Hung, 30 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// setup are the settings of the door's process.
func (d *Door) setup() wire.Setup {
	l := d.Limits
	return wire.Setup{
		NodeID: d.NodeID, Files: processFiles.Each, Memory: processMemory.Each,
		Limits: [wire.Limits]limit.Limit{
			wire.Strangers: l.Strangers, wire.TunnelStrangers: l.TunnelStrangers, wire.Owners: l.Owners, wire.OwnerSources: l.OwnerSources,
		},
		Greeting: l.Greeting, Header: l.Header, Body: l.Body, Idle: l.Idle, Stuck: l.Stuck,
	}
}
