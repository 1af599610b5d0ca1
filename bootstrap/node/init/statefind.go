package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/disks"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/modules/storage/nodestate"
)

const (
	// poolsAt is where croftd mounts pools, marksAt where the state has a file for each of the node's pools, namesAt where disks have names that
	// stay.
	poolsAt = "/run/croft/pools"
	marksAt = "croft/storage/pools"
	namesAt = "/dev/disk/by-id"
	// lookEvery is the longest time between two looks at the disks while the state isn't found.
	lookEvery = time.Second
	// quietLate is for how long no disk may have appeared before a node does without its state, on a machine whose disks may come late: behind
	// USB and SAS; quietSoon is that of other machines.
	quietLate = 10 * time.Second
	quietSoon = time.Second
	// leastPool is the least pool in memory, in bytes.
	leastPool = 256 << 20
)

// diskState is what the node runs on.
type diskState struct {
	// pool is the name of the pool with the state; empty if that is in memory.
	pool string
	plan disks.Plan
}

// diskless reports whether the node runs from memory. Before its state is found that isn't known.
func (d *diskState) diskless() bool { return d != nil && d.pool == "" }

// notes say of each disk what becomes of it.
func (d *diskState) notes() []string {
	if d == nil {
		return nil
	}
	return d.plan.Notes
}

// search is a search for the node's state.
type search struct {
	finder  disks.Finder
	want    disks.Want
	history disks.History
}

// openState finds the node's state, or makes it, and binds its folders to their places. A machine on which no disk may be used keeps its state
// in memory. It waits for as long as the state may be out of reach: another node would come up in its place.
func (m *machine) openState(ctx context.Context) error {
	n := m.settings.Node
	s := search{
		finder:  disks.Finder{Sys: "/sys", Boot: os.Getenv(nodeimage.DeviceVariable), Mounts: poolsAt},
		want:    disks.Want{Empty: n.EmptyDisks, Named: n.Disks, Wipe: n.Wipe, StateID: n.StateID, Memory: guest.MemoryBytes()},
		history: disks.Begin(time.Now()),
	}
	for {
		next := m.devices.next()
		done, err := m.tryState(ctx, &s)
		if done || ctx.Err() != nil {
			return err
		}
		m.wrong("state", err)
		select {
		case <-ctx.Done():
		case <-next:
		case <-after(lookEvery):
		}
	}
}

// tryState looks for the state on the disks that there are now. done tells that the node goes on, with or without it.
func (m *machine) tryState(ctx context.Context, s *search) (done bool, err error) {
	found, err := s.finder.Find(ctx)
	if err != nil {
		return false, err
	}
	m.wrong("disk names", disks.Link(namesAt, found))
	s.history = s.history.Seen(found, s.want, time.Now())
	if !disks.StateFound(found, s.want) && !m.quiet(s) {
		return false, nil
	}
	plan := disks.Choose(found, s.want)
	switch {
	case plan.Problem != "":
		return false, errors.New(plan.Problem)
	case plan.MemoryPool > 0:
		return true, m.memoryState(plan)
	}
	state, err := m.prepareState(ctx, plan)
	if err != nil {
		s.finder.Forget()
		return false, err
	}
	// The node's pools are known now: their disks may have to be waited for.
	if s.want.Marks, err = marks(filepath.Join(state.Path, marksAt)); err != nil {
		return false, err
	}
	s.finder.Forget()
	if found, err = s.finder.Find(ctx); err != nil {
		return false, err
	}
	if !disks.Settled(s.history, found, s.want, quietLate, time.Now()) {
		return false, nil
	}
	plan = disks.Choose(found, s.want)
	if plan.Problem != "" {
		return false, errors.New(plan.Problem)
	}
	m.disks.Store(&diskState{pool: state.Pool, plan: plan})
	m.say("the node's state is on pool %s of %s", state.Pool, state.Disk)
	return true, m.takeState(state.Path)
}

// quiet reports whether no more disks are expected. A disk that appears later has its node's state with it.
func (m *machine) quiet(s *search) bool {
	least := quietSoon
	if lateDisks("/sys") {
		least = quietLate
	}
	return m.driversLoaded() && time.Since(s.history.Changed) >= least
}

// prepareState mounts the pool with the state, or makes it, as croftd storage prepare does.
func (m *machine) prepareState(ctx context.Context, plan disks.Plan) (storage.StateVolume, error) {
	cfg := storage.Config{State: "/var/lib/croft/storage", Mounts: poolsAt, WipeDisks: plan.Wipe, Log: m.logger()}
	for _, text := range plan.Prepare {
		spec, err := storage.ParseDisk(text)
		if err != nil {
			return storage.StateVolume{}, err
		}
		cfg.Pools = append(cfg.Pools, spec)
	}
	state, err := storage.PrepareState(ctx, cfg, storage.StateSpec{Want: nodestate.Want{UUID: m.settings.Node.StateID, Make: plan.Make}})
	if err == nil && state.Made {
		m.say("this node is new")
	}
	return state, err
}

// marks are the node's pools, as the storage module has written them down.
func marks(folder string) (out []disks.Mark, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, errors.Wrap(err, "cannot read which pools the node has")
		}
		var mark struct{ Name, UUID, Disk string }
		if json.Unmarshal(raw, &mark) == nil && mark.UUID != "" {
			out = append(out, disks.Mark{Name: mark.Name, UUID: mark.UUID, Disk: mark.Disk})
		}
	}
	return out, nil
}

// memoryState keeps the state in memory.
func (m *machine) memoryState(plan disks.Plan) error {
	m.disks.Store(&diskState{plan: plan})
	if err := unix.Mount("tmpfs", stateAt, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700,size=75%"); err != nil {
		return errors.Wrap(err, "cannot keep the node's state in memory")
	}
	m.wrong("disks", errors.New("there is none that the node may use: it runs from memory, and everything on it is lost when it is switched off"))
	return m.takeState(stateAt)
}

// takeState binds the folders of the state to their places, and has logs written there.
func (m *machine) takeState(state string) error {
	if err := bindState(state); err != nil {
		return err
	}
	m.runner.LogTo(logsAt)
	return m.logIn(logsAt)
}

// diskSettings are the settings of croftd about disks.
func (m *machine) diskSettings() map[string]string {
	d := m.disks.Load()
	if d.diskless() {
		return map[string]string{"pool-size": strconv.FormatUint(max(d.plan.MemoryPool, leastPool)>>20, 10) + "MiB"}
	}
	out := map[string]string{"disk": strings.Join(d.plan.Disk, ",")}
	if len(d.plan.Wipe) > 0 {
		out["wipe-disk"] = strings.Join(d.plan.Wipe, ",")
	}
	return out
}

// lateDisks reports whether a sysfs shows a bus whose disks may come late: USB, and controllers of SCSI other than those of SATA.
func lateDisks(sys string) bool {
	if usb, _ := os.ReadDir(filepath.Join(sys, "bus/usb/devices")); len(usb) > 0 {
		return true
	}
	hosts, _ := filepath.Glob(filepath.Join(sys, "class/scsi_host/host*"))
	for _, host := range hosts {
		if name := guest.ReadText(host + "/proc_name"); name != "ahci" && name != "ata_piix" && !strings.HasPrefix(name, "virtio") {
			return true
		}
	}
	return false
}
