package main

import (
	"cmp"
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
	"github.com/croft-edge/croft/bootstrap/node/init/memdisk"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/nodestate"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/saturate"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	// poolsAt is where croftd mounts pools, marksAt where the state has a file for each of the node's pools, namesAt where disks have names that
	// stay.
	poolsAt = "/run/croft/pools"
	marksAt = "croft/storage/pools"
	namesAt = "/dev/disk/by-id"
	// lookEvery is the longest time between two looks at the disks while the state isn't found. What was read of a disk isn't read again.
	lookEvery = 250 * time.Millisecond
	// failedPause is the pause after a look that has failed.
	failedPause = 2 * time.Second
	// quietLate is for how long no disk may have appeared before a node does without its state, on a machine whose disks may come late: behind
	// USB and SAS; quietSoon is that of other machines.
	quietLate = 10 * time.Second
	quietSoon = time.Second
	// leastPool is the least pool in memory, in bytes.
	leastPool = 256 << 20
)

// diskState is what the node runs on.
type diskState struct {
	// pool is the name of the pool with the state, path where that is mounted; both are empty if it is in memory.
	pool, path string
	plan       disks.Plan
	// memoryDisk is the disk in memory that becomes the pool of a node that runs from memory.
	memoryDisk string
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
	*journal
	*events
	finder  disks.Finder
	want    disks.Want
	history disks.History
	// loaded is the first listing of disks after the drivers were loaded; zero before it.
	loaded time.Time
}

// openState finds the node's state, or makes it, and binds its folders to their places. A machine on which no disk may be used keeps its state
// in memory. It waits for as long as the state may be out of reach: another node would come up in its place.
func (m *machine) openState(ctx context.Context) error {
	n := m.settings.Node
	s := search{
		journal: m.journal, events: m.events,
		finder:  disks.Finder{Sys: "/sys", Boot: os.Getenv(nodeimage.DeviceVariable), Mounts: poolsAt},
		want:    disks.Want{Empty: n.EmptyDisks, Named: n.Disks, Wipe: n.Wipe, StateID: n.StateID, Memory: guest.MemoryBytes()},
		history: disks.Begin(time.Now()),
	}
	for {
		next := m.devices.next()
		found, err := s.look(ctx)
		if found != nil && err == nil {
			m.disks.Store(found)
			return m.takeState(ctx, found)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.wrong("state", err)
		if m.driversLoaded() {
			m.beginCheck(ctx) // there is time, and a new node needs it
		}
		wait := lookEvery
		if err != nil {
			wait = failedPause
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-after(wait):
		}
	}
}

// look looks for the state on the disks that there are now; nil while it isn't found, and may still come.
func (s *search) look(ctx context.Context) (*diskState, error) {
	found, began, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	if s.history = s.history.Seen(found, s.want, began); !disks.StateFound(found, s.want) && !s.quiet(began) {
		return nil, nil
	}
	plan := disks.Choose(found, s.want)
	switch {
	case plan.Problem != "":
		return nil, errors.New(plan.Problem)
	case plan.MemoryPool > 0:
		s.wrong("disks", errors.New("there is none that the node may use: it runs from memory, and everything on it is lost when it is switched off"))
		return &diskState{plan: plan}, nil
	}
	state, err := s.prepare(ctx, plan)
	s.finder.Forget() // a disk may have become a pool
	if err != nil {
		return nil, err
	}
	// The node's pools are known now: their disks may have to be waited for.
	if s.want.Marks, err = marks(filepath.Join(state.Path, marksAt)); err != nil {
		return nil, err
	}
	if found, began, err = s.find(ctx); err != nil || !disks.Settled(s.history, found, s.want, quietLate, began) {
		return nil, err
	}
	if plan = disks.Choose(found, s.want); plan.Problem != "" {
		return nil, errors.New(plan.Problem)
	}
	s.say("the node's state is on pool %s of %s", state.Pool, state.Disk)
	return &diskState{pool: state.Pool, path: state.Path, plan: plan}, nil
}

// find lists the disks, and gives them names that stay. It lists them when it begins, and reads them then, which may take long: a disk that appears
// meanwhile isn't among them.
func (s *search) find(ctx context.Context) (found []disks.Disk, began time.Time, err error) {
	if began = time.Now(); s.loaded.IsZero() && s.driversLoaded() {
		s.loaded = began
	}
	found, err = s.finder.Find(ctx)
	if err == nil {
		s.wrong("disk names", disks.Link(namesAt, found))
	}
	return found, began, err
}

// quiet reports whether no more disks are expected: those that were listed at a time have all been there for long, and the drivers too. A disk that
// appears later has its node's state with it.
func (s *search) quiet(listed time.Time) bool {
	least := quietSoon
	if lateDisks("/sys") {
		least = quietLate
	}
	return !s.loaded.IsZero() && listed.Sub(s.loaded) >= least && listed.Sub(s.history.Changed) >= least
}

// prepare mounts the pool with the state, or makes it, as croftd storage prepare does.
func (s *search) prepare(ctx context.Context, plan disks.Plan) (storage.StateVolume, error) {
	cfg := storage.Config{State: "/var/lib/croft/storage", Mounts: poolsAt, WipeDisks: plan.Wipe, Log: s.logger()}
	for _, text := range plan.Prepare {
		spec, err := storage.ParseDisk(text)
		if err != nil {
			return storage.StateVolume{}, err
		}
		cfg.Pools = append(cfg.Pools, spec)
	}
	state, err := storage.PrepareState(ctx, cfg, storage.StateSpec{Want: nodestate.Want{UUID: s.want.StateID, Make: plan.Make}})
	if err == nil && state.Made {
		s.say("this node is new")
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

// takeState binds the folders of the state to their places, and has logs written there. Without a disk it is in memory.
func (m *machine) takeState(ctx context.Context, d *diskState) error {
	if !d.diskless() {
		return m.useState(d.path)
	}
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	// An earlier life of init may have mounted it.
	if _, there := mounted.At(stateAt); !there {
		if err := unix.Mount("tmpfs", stateAt, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700,size=25%"); err != nil {
			return errors.Wrap(err, "cannot keep the node's state in memory")
		}
	}
	if err := m.modules.Load("zram"); err != nil {
		return err
	}
	maker := memdisk.Maker{Sys: "/sys", Dev: "/dev", Notes: stateAt}
	if d.memoryDisk, err = maker.Disk("disk-pool", int64(d.memoryPool())); err != nil {
		return err
	}
	images, err := maker.Disk("disk-images", int64(d.memoryPool()))
	if err != nil {
		return err
	}
	if err := memdisk.Mount(ctx, images, stateAt+"/"+imagesName); err != nil {
		return err
	}
	return m.useState(stateAt)
}

// memoryPool is the size in bytes of the pool in memory, and of the disk with containers' images there.
func (d *diskState) memoryPool() uint64 { return max(d.plan.MemoryPool, leastPool) }

// useState binds the folders of the state that is mounted there.
func (m *machine) useState(path string) error {
	if err := bindState(path); err != nil {
		return err
	}
	m.runner.LogTo(logsAt)
	return m.logIn(logsAt)
}

// defaultReserve is croftd's default of reserveMemory.
const reserveMemory, defaultReserve = "reserve-memory", "512MiB"

// settings are the settings of croftd about disks, with those that the operator has given.
func (d *diskState) settings(given map[string]string) map[string]string {
	out := map[string]string{}
	if d.diskless() {
		out["disk"] = string(workload.SSD) + ":" + d.memoryDisk
		// Workloads can't have the memory of the disks in it. A size that can't be read is for croftd to refuse.
		if keep, err := bytesize.Parse(cmp.Or(given[reserveMemory], defaultReserve)); err == nil {
			out[reserveMemory] = strconv.FormatUint(saturate.Add(keep, 2*d.memoryPool()), 10)
		}
		return out
	}
	out["disk"] = strings.Join(d.plan.Disk, ",")
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
