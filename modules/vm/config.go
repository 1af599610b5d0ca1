package vm

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/vm/discard"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/node"
)

// Logs takes the output of guests' consoles, in bounded files. It may be called from several goroutines.
type Logs interface {
	// Open returns the FIFO that a VM's console and QEMU's messages are written to, opened for writing.
	Open(ctx context.Context, id, user string) (*os.File, error)
	// Drop ends the reading, and removes the files.
	Drop(ctx context.Context, id string) error
}

// Config configures a Module.
type Config struct {
	// RunDir is the node's run folder, on a tmpfs.
	RunDir string
	// Program is QEMU's path or name; empty for qemu-system-x86_64.
	Program string
	// Command starts a program that calls launch.Become.
	Command []string
	// Discarder starts a program that calls discard.Serve; without it guests are offered no discards.
	Discarder []string
	// Accelerator is the only one that is tried; empty: KVM where it really works, else TCG.
	Accelerator qemu.Accelerator
	// Cgroup is the path of the control group that has those of all VMs, such as "/croft-vms".
	Cgroup string
	Logs   Logs
	// PowerOff is how long a guest may take to power itself off; 0 for 30 s.
	PowerOff time.Duration
	// Answer is how long a started QEMU may take to answer; 0 for 20 s.
	Answer time.Duration
	Log    zerolog.Logger
}

const (
	// folderName is the module's folder in the node's run folder.
	folderName      = "vm"
	defaultProgram  = "qemu-system-x86_64"
	defaultPowerOff = 30 * time.Second
	defaultAnswer   = 20 * time.Second
	// endTime is how long a killed QEMU may take to end.
	endTime = 10 * time.Second
	// firstUID begins the IDs of users that VMs run as, one each: above those of containers (rootfs, up to 0xefffffff).
	firstUID = 0xf0000000
	// discarderUIDs is added to a VM's ID for the user that its discarder runs as: above the probes'. The VM's process can't signal it.
	discarderUIDs = 1 << 17
	// The limits of one VM.
	mostCPU       = 255
	leastMemory   = 16 << 20
	mostDisks     = 8
	longestConfig = 4 << 20
	// mostPIDs is how many threads a VM may have beside one for each core: QEMU's for its disks' work, and the discarder's.
	mostPIDs = 128 + discard.Threads
)

func (c Config) normal() (Config, error) {
	if !filepath.IsAbs(c.RunDir) {
		return c, node.Errorf(node.Invalid, "cannot open the vm module: RunDir is %q, must be an absolute path", c.RunDir)
	}
	if len(c.Command) == 0 || c.Logs == nil {
		return c, node.Errorf(node.Invalid, "cannot open the vm module: it needs Command and Logs")
	}
	switch c.Accelerator {
	case "", qemu.KVM, qemu.TCG:
	default:
		return c, node.Errorf(node.Invalid, "cannot open the vm module: Accelerator is %q, must be kvm, tcg or empty", c.Accelerator)
	}
	if c.Program == "" {
		c.Program = defaultProgram
	}
	if c.PowerOff <= 0 {
		c.PowerOff = defaultPowerOff
	}
	if c.Answer <= 0 {
		c.Answer = defaultAnswer
	}
	return c, nil
}
