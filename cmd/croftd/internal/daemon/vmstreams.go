package daemon

import (
	"context"

	containermodule "github.com/croft-edge/croft/cmd/croftd/internal/module/container"
	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/modules/vm"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/workload"
)

// vmStreams serves VMs' consoles: their output is kept as containers' is.
type vmStreams struct {
	logDir    string
	followers *logs.Followers
	consoles  *vm.Consoles
	vms       *stubs.VMsStub
	parts     *engineParts
}

func (d *daemon) vmStreams(m clients, parts *engineParts, followers *logs.Followers) *vmStreams {
	return &vmStreams{
		logDir: containermodule.LogConfig(d.Config.Config, d.Log).Dir, followers: followers, consoles: vm.NewConsoles(d.RunDir), vms: m.vms, parts: parts,
	}
}

// ownVM is the VM of the reservation that the node has under an ID. NotExist when the VM of that ID is another's: an explorer
// gives IDs, and an earlier VM may be left.
func ownVM(ctx context.Context, parts *engineParts, vms *stubs.VMsStub, id string) (node.VMInfo, error) {
	rec, err := parts.store.Record(id)
	if err != nil {
		return node.VMInfo{}, err
	}
	vm, err := vms.Inspect(ctx, id)
	if err == nil && vm.Hash != rec.Hash.Hex() {
		err = node.Errorf(node.NotExist, "cannot find VM %s: the one of that ID isn't this reservation's", id)
	}
	return vm, err
}

// Logs implements userapi.Streams.
func (s *vmStreams) Logs(ctx context.Context, id string, o nodeapi.LogOptions, f func(node.LogLine) error) error {
	vm, err := ownVM(ctx, s.parts, s.vms, id)
	if err != nil {
		return err
	}
	if o.Tail < 0 {
		o.Tail = allLines
	}
	return s.followers.Read(ctx, logs.Log{Dir: s.logDir, ID: id, User: vm.User}, o.Tail, o.Follow, f)
}

// Stats implements userapi.Streams.
func (s *vmStreams) Stats(ctx context.Context, id string) (node.ContainerStats, error) {
	if _, err := ownVM(ctx, s.parts, s.vms, id); err != nil {
		return node.ContainerStats{}, err
	}
	use, err := s.vms.Stats(ctx, id)
	return node.ContainerStats{ID: use.ID, At: use.At, CPU: use.CPU, Memory: use.Memory, MemoryLimit: use.MemoryLimit}, err
}

// Exec implements userapi.Streams: it attaches the console.
func (s *vmStreams) Exec(ctx context.Context, id string, o nodeapi.ExecOptions, streams nodeapi.ExecIO) (uint32, error) {
	if len(o.Args) > 0 || !o.Terminal {
		return 0, node.Errorf(node.Invalid, "cannot run a command in VM %s: a VM has a console only; use exec -it without a command, or ssh", id)
	}
	if _, err := ownVM(ctx, s.parts, s.vms, id); err != nil {
		return 0, err
	}
	return 0, s.consoles.Attach(ctx, id, streams.Stdin, streams.Stdout)
}

// streamsByType serves the streams of each type of workload that has some.
type streamsByType struct {
	parts      *engineParts
	containers userapi.Streams
	vms        userapi.Streams
}

// of returns the streams of a workload's type; containers' where it is unknown.
func (s streamsByType) of(id string) userapi.Streams {
	if rec, err := s.parts.store.Record(id); err == nil && rec.Reservation.Type == workload.TypeKubernetes {
		return s.vms
	}
	return s.containers
}

// Logs implements userapi.Streams.
func (s streamsByType) Logs(ctx context.Context, id string, o nodeapi.LogOptions, f func(node.LogLine) error) error {
	return s.of(id).Logs(ctx, id, o, f)
}

// Stats implements userapi.Streams.
func (s streamsByType) Stats(ctx context.Context, id string) (node.ContainerStats, error) {
	return s.of(id).Stats(ctx, id)
}

// Exec implements userapi.Streams.
func (s streamsByType) Exec(ctx context.Context, id string, o nodeapi.ExecOptions, streams nodeapi.ExecIO) (uint32, error) {
	return s.of(id).Exec(ctx, id, o, streams)
}
