package daemon

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/generic/transform"
	"github.com/cosi-project/runtime/pkg/safe"
	cosi "github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"github.com/siderolabs/gen/xerrors"

	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/registration"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// startProvision starts the engine. The socket of the node's state and the health port serve from the start, also
// while it waits for the modules.
func (d *daemon) startProvision(ctx context.Context, parts *supervise.Group) error {
	client := bus.NewClient(d.bus, d.options)
	parts.Start(supervise.Part{Name: "client", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return client.Close()
	}})
	m := newClients(client)
	v := d.view(m)
	d.liveness.shown.Store(v)
	s, err := d.openState(m, v)
	if err != nil {
		return err
	}
	d.startState(ctx, parts, m, v, s)
	s.startDebug(ctx, parts, d)
	s.hooks.start(parts, s, d.HooksDir, d.Log)
	if err := d.startHealth(ctx, parts, s); err != nil {
		return err
	}
	nodeID, err := waitForNodeID(ctx, d, m)
	if err != nil {
		return err
	}
	link, err := d.openLink(nodeID, m, v.contact)
	if err != nil {
		return err
	}
	b := &engineParts{nodeID: nodeID, state: s, machine: v.machine}
	if err := d.openDoor(ctx, m, b); err != nil {
		return err
	}
	if err := d.openRegistration(b, link); err != nil {
		return err
	}
	err = d.openEngine(b, m, link, v)
	if b.store != nil {
		parts.Start(supervise.Part{Name: "store", Run: func(ctx context.Context) error {
			<-ctx.Done()
			return b.store.Close()
		}})
	}
	if err != nil {
		return err
	}
	parts.Start(b.mirrorsPart())
	v.set(b)
	d.Log.Info().Str("node", nodeID).Str("birth", b.store.Birth().ID).Msg("the node knows itself")
	parts.Start(supervise.Part{Name: "clock", Run: b.clock.Run, Again: true})
	if err := d.startCounters(parts, b); err != nil {
		return err
	}
	if link.registration != nil {
		parts.Start(supervise.Part{Name: "registration", Run: link.registration.Run, Again: true})
	}
	parts.Start(supervise.Part{Name: "engine", Run: b.engine.Run, Within: d.StopTimeout + engineStop})
	d.startDoor(parts, b, link)
	return nil
}

func waitForNodeID(ctx context.Context, d *daemon, m clients) (id string, err error) {
	err = d.waitFor(ctx, "the identity module", func(ctx context.Context) (err error) {
		id, err = m.identity.NodeID(ctx)
		return err
	})
	return id, err
}

// engineStop is how long running effects may take to end, in addition to StopTimeout, in which results
// are still sent.
const engineStop = 15 * time.Second

// startHealth opens the health port. An address that can't be listened on is a wrong setting; what happens to the port later ends nothing.
func (d *daemon) startHealth(ctx context.Context, parts *supervise.Group, s *state) error {
	if d.HealthListen == "" {
		return nil
	}
	read := func(ctx context.Context) (nodestatus.Status, error) { return nodestatus.Read(ctx, s.State()) }
	listen := func(ctx context.Context) (*health.Server, error) {
		return health.Listen(ctx, health.Config{Listen: d.HealthListen, File: d.HealthFile, Modules: d.Modules, Alive: d.liveness.check, Status: read, Log: d.Log})
	}
	seen, err := listen(ctx)
	if err != nil {
		return err
	}
	d.Log.Info().Str("address", seen.Address()).Msg("health is served")
	parts.Start(supervise.Part{Name: "health", Again: true, Run: reopened(seen, listen)})
	return nil
}

// startCounters serves the engine's counters on the bus, and receives other processes' counts of
// reached limits. Nothing on the bus drives the engine.
func (d *daemon) startCounters(parts *supervise.Group, b *engineParts) error {
	server, err := bus.NewServer(d.bus, node.ProvisionModule, d.options)
	if err != nil {
		return err
	}
	if err := bus.RegisterMethods(server, bus.Object(node.ProvisionObject, node.ProvisionVersion), stubs.ProvisionMethods(b.engine)); err != nil {
		return err
	}
	if err := bus.RegisterMethods(server, bus.Object(node.LimitsObject, node.LimitsVersion), stubs.LimitCountsMethods(&limitCounts{})); err != nil {
		return err
	}
	parts.Start(supervise.Part{Name: "counters", Run: server.Run, Within: module.StopTimeout, Again: true})
	return nil
}

// link is the connection to the explorer; without one, client and registration are nil.
type link struct {
	client       *explorer.Client
	registration *registration.Registration
	contact      *contact
}

// openLink makes the client; it doesn't connect.
func (d *daemon) openLink(nodeID string, m clients, c *contact) (*link, error) {
	if d.Explorer == "" {
		d.Log.Warn().Msg("no explorer is configured: no new reservations can arrive")
		return &link{contact: c}, nil
	}
	sign := func(message []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), askModule)
		defer cancel()
		return m.identity.Sign(ctx, message)
	}
	client, err := explorer.NewClient(explorer.Config{
		URL: d.Explorer, UserAgent: "croftd/" + d.Version.Version,
		Signer: &explorer.Signer{Role: explorer.RoleNode, ID: nodeID, Sign: sign},
	})
	return &link{client: client, contact: c}, err
}

// PollPage implements source.Poller. The first poll waits until the first registration has succeeded or
// failed.
func (l *link) PollPage(ctx context.Context, nodeID string, after explorer.Cursor, wait time.Duration) (explorer.Page, error) {
	select {
	case <-l.registration.Tried():
	case <-ctx.Done():
		return explorer.Page{}, ctx.Err()
	}
	page, err := l.client.PollPage(ctx, nodeID, after, wait)
	if errors.Is(err, node.NotExist) {
		l.registration.Forgotten()
	}
	return page, err
}

// PutResult implements feedback.Sender.
func (l *link) PutResult(ctx context.Context, r *workload.Result) error {
	if l.client == nil {
		return node.Errorf(node.Transient, "cannot send result of %s: no explorer is configured", r.ID)
	}
	err := l.client.PutResult(ctx, r)
	if node.KindOf(err) == node.Transient {
		l.contact.tell(err)
	}
	return err
}

// openRegistration makes the part that keeps the node registered at the explorer.
func (d *daemon) openRegistration(b *engineParts, l *link) (err error) {
	if l.client == nil {
		return nil
	}
	l.registration, err = registration.New(registration.Config{
		Explorer: l.client, Every: d.Heartbeat, Contact: l.contact.tell, Log: d.Log,
		Facts: func(ctx context.Context) (registration.Facts, error) { return d.facts(ctx, b) },
	})
	return err
}

// facts collects what the node registers about itself from its state.
func (d *daemon) facts(ctx context.Context, b *engineParts) (registration.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askModule)
	defer cancel()
	there := cosi.WithEventTypes(cosi.Created, cosi.Updated)
	machine, err := safe.StateWatchFor[*host.Host](ctx, b.state.State(), host.NewHost(node.HostInfo{}).Metadata(), there)
	if err != nil {
		return registration.Facts{}, errors.Wrap(err, "cannot describe the machine yet")
	}
	room, err := safe.StateWatchFor[*host.Capacity](ctx, b.state.State(), host.NewCapacity(host.CapacitySpec{}).Metadata(), there)
	if err != nil {
		return registration.Facts{}, errors.Wrap(err, "cannot tell the node's capacity yet")
	}
	return nodeFacts{
		nodeID: b.nodeID, farm: d.FarmID, version: d.Version.Version, birth: b.store.Birth().ID, host: machine.TypedSpec().HostInfo,
		room: *room.TypedSpec(), ports: b.ports(), door: d.doorAddress(b, machine.TypedSpec().Addresses),
	}.facts()
}

// capacity is the room for workloads. Before the engine is open, nobody knows what is promised.
func (d *daemon) capacity(ctx context.Context, m clients, b *engineParts, machine host.HostSpec) (host.CapacitySpec, error) {
	if b == nil {
		return host.CapacitySpec{}, xerrors.NewTaggedf[transform.SkipReconcileTag]("cannot tell the node's capacity: the node waits for its modules")
	}
	room, err := m.room(ctx, machine.HostInfo, d.Config.Config, b)
	if err != nil {
		return host.CapacitySpec{}, err
	}
	return capacityOf(room, b.used()), nil
}

// used is the sum of the capacity that is promised to the node's workloads.
func (b *engineParts) used() provisioner.Demand {
	_, all := b.store.Usage("")
	return all.Demand
}
