package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/disks"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/modules/storage"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// poolsAt is where croftd mounts pools, marksAt where its state has a file for each of the node's pools.
	poolsAt = "/run/croft/pools"
	marksAt = "croft/storage/pools"
	// lookEvery is the longest time between two looks at the disks while the state isn't found.
	lookEvery = time.Second
	// memoryPart of the memory is the pool of a node without disks.
	memoryPart = 4
	leastPool  = 256 << 20
)

// diskState is what the node runs on.
type diskState struct {
	// volume is the node's state; nil if it is in memory.
	volume *storage.StateVolume
	plan   disks.Plan
}

// diskless reports whether the node runs from memory. Before its state is found that isn't known.
func (d *diskState) diskless() bool { return d != nil && d.volume == nil }

// left are the disks that are left alone.
func (d *diskState) left() []disks.Left {
	if d == nil {
		return nil
	}
	return d.plan.Left
}

// openState finds the node's state, or makes it, and binds its folders to their places. A machine on which no disk may be used keeps its state
// in memory. It waits for as long as there is a disk whose state can't be read: another node would come up in its place.
func (m *machine) openState(ctx context.Context) error {
	wish := m.diskWish()
	found, quiet := 0, time.Now()
	for {
		next := m.devices.next()
		all, err := disks.Find(ctx, "/sys", os.Getenv(nodeimage.DeviceVariable))
		if err != nil {
			return err
		}
		if len(all) != found {
			found, quiet = len(all), time.Now()
		}
		m.wrong("disk names", disks.Link(all))
		seen := disks.Seen{Drivers: m.driversLoaded(), Late: lateDisks("/sys"), Quiet: time.Since(quiet)}
		done, err := m.tryState(ctx, all, wish, seen)
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

// diskWish is what the operator says of disks.
func (m *machine) diskWish() disks.Wish {
	n := m.settings.Node
	return disks.Wish{Empty: n.EmptyDisks, Named: n.Disks, Wipe: n.Wipe}
}

// tryState looks for the state on the disks that there are. done tells that the node goes on, with or without it.
func (m *machine) tryState(ctx context.Context, all []disks.Disk, wish disks.Wish, seen disks.Seen) (done bool, err error) {
	plan := disks.Choose(all, wish, nil)
	cfg, err := m.poolConfig(plan.Use)
	if err != nil {
		return false, err
	}
	want := storage.StateWish{UUID: m.settings.Node.StateID}
	if seen.Settled() {
		want.Make = plan.Make
	}
	volume, err := storage.OpenState(ctx, cfg, want)
	switch {
	case err == nil:
	case errors.Is(err, node.NotExist) && seen.Settled() && len(plan.Make) == 0 && !anyPool(all):
		return true, m.memoryState(plan)
	default:
		return false, err
	}
	own, err := marks(filepath.Join(volume.Path, marksAt))
	if err != nil {
		return false, err
	}
	own[volume.Pool] = volume.UUID
	plan = disks.Choose(all, wish, own)
	if !seen.Complete(plan) {
		m.say("waiting for pools that aren't there yet: %s", strings.Join(plan.Missing, ", "))
		return false, nil
	}
	if volume.Made {
		m.say("this node is new: its state is on pool %s of %s", volume.Pool, volume.Disk)
	}
	m.disks.Store(&diskState{volume: &volume, plan: plan})
	return true, m.takeState(volume.Path, volume.Images)
}

// anyPool reports whether a disk has a pool of croft's, on which the state may lie.
func anyPool(all []disks.Disk) bool {
	for _, d := range all {
		if d.Pool != "" || d.Unread != "" && !d.Boot {
			return true
		}
	}
	return false
}

// poolConfig is the storage module's configuration for these disks, as croftd will have it.
func (m *machine) poolConfig(use []string) (storage.Config, error) {
	cfg := storage.Config{State: stateAt, Mounts: poolsAt, WipeDisks: m.settings.Node.Wipe, Log: m.logger()}
	for _, text := range use {
		spec, err := storage.ParseDisk(text)
		if err != nil {
			return cfg, err
		}
		cfg.Pools = append(cfg.Pools, spec)
	}
	return cfg, nil
}

// marks are the UUIDs of the node's pools by their names, as the storage module has written them down.
func marks(folder string) (map[string]string, error) {
	out := map[string]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, errors.Wrap(err, "cannot read which pools the node has")
		}
		var mark struct{ Name, UUID string }
		if json.Unmarshal(raw, &mark) == nil && mark.UUID != "" {
			out[mark.Name] = mark.UUID
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
	return m.takeState(stateAt, filepath.Join(stateAt, "images"))
}

// takeState binds the folders of the state to their places, and has logs written there.
func (m *machine) takeState(state, images string) error {
	if err := bindState(state, images); err != nil {
		return err
	}
	m.runner.LogTo(logsAt)
	return m.logIn(logsAt)
}

// diskSettings are the settings of croftd about disks.
func (m *machine) diskSettings() map[string]string {
	d := m.disks.Load()
	if d.volume == nil {
		return map[string]string{"pool-size": bytesText(max(guest.MemoryBytes()/memoryPart, leastPool))}
	}
	out := map[string]string{"disk": strings.Join(d.plan.Use, ",")}
	if wipe := m.settings.Node.Wipe; len(wipe) > 0 {
		out["wipe-disk"] = strings.Join(wipe, ",")
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
